package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianAndSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values         []float64
		median, spread float64
	}{
		{nil, 0, 0},
		{[]float64{5}, 5, 0},
		{[]float64{9, 1}, 5, 1.6},
		{[]float64{3, 1, 2}, 2, 1},
		{[]float64{4, 1, 3, 2}, 2.5, 1.2},
		{[]float64{0, 0}, 0, 0},
	} {
		given := slices.Clone(test.values)
		if got := Median(test.values); got != test.median {
			t.Errorf("median of %v: %v", test.values, got)
		}
		if got := Spread(test.values); math.Abs(got-test.spread) > 1e-12 {
			t.Errorf("spread of %v: %v", test.values, got)
		}
		if !slices.Equal(given, test.values) {
			t.Errorf("%v was changed to %v", given, test.values)
		}
	}
	if _, ok := Logs([]float64{1, 0}); ok {
		t.Error("the logarithm of 0 was taken")
	}
	if _, ok := Logs([]float64{math.NaN()}); ok {
		t.Error("the logarithm of NaN was taken")
	}
}

// Known values, from tables of the two distributions.
func TestKnownProbabilities(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{1, 3}, []float64{2, 4}, 4.0 / 6},
		{[]float64{7, 7, 7}, []float64{7, 7, 7}, 1},
		{nil, []float64{1}, 1},
	} {
		if got := MannWhitney(test.a, test.b); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v against %v: %v, want %v", test.a, test.b, got, test.want)
		}
	}
	for _, test := range []struct {
		differences []float64
		want        float64
	}{
		{[]float64{-1, -2, -3, -4, -5}, 1.0 / 32},
		{[]float64{1, -2, -3, -4, -5}, 2.0 / 32},
		{[]float64{1, 2, 3}, 1},
		{[]float64{0, 0, 0, 0}, 0.5 + 0.5*1/8},
		{nil, 1},
	} {
		if got := SignedRank(test.differences); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", test.differences, got, test.want)
		}
	}
}

// Against counting all arrangements, for every small size.
func TestDistributionsAgainstEnumeration(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		for m := 1; m <= 5; m++ {
			want := make([]float64, n*m+1)
			for choice := range 1 << (n + m) {
				u, fromA, chosen := 0, 0, 0
				for bit := range n + m {
					if choice>>bit&1 == 1 {
						fromA++
						chosen++
					} else {
						u += fromA
					}
				}
				if chosen == n {
					want[u]++
				}
			}
			if got := mannWhitneyCounts(n, m); !slices.Equal(got, want) {
				t.Errorf("%d and %d: %v, want %v", n, m, got, want)
			}
		}
		want := make([]float64, n*(n+1)/2+1)
		for signs := range 1 << n {
			sum := 0
			for rank := 1; rank <= n; rank++ {
				sum += signs >> (rank - 1) & 1 * rank
			}
			want[sum]++
		}
		if got := signedRankCounts(n); !slices.Equal(got, want) {
			t.Errorf("%d signs: %v, want %v", n, got, want)
		}
	}
}

func sample(random *rand.Rand, n int, middle float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = middle + random.NormFloat64()
		if random.IntN(8) == 0 {
			values[i] -= 5 * random.Float64() // a run that was disturbed
		}
	}
	return values
}

func TestProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		a, b := sample(random, 1+random.IntN(10), 0), sample(random, 1+random.IntN(10), random.NormFloat64())
		p := MannWhitney(a, b)
		if p < 0 || p > 1 || math.Abs(p-MannWhitney(b, a)) > 1e-9 {
			t.Fatalf("%v and %v: %v one way, %v the other", a, b, p, MannWhitney(b, a))
		}
		shift := ShiftInterval(a, b, 0.95)
		if shift.Low > shift.Middle || shift.Middle > shift.High {
			t.Fatalf("interval %+v", shift)
		}
		back := ShiftInterval(b, a, 0.95)
		if math.Abs(back.Low+shift.High) > 1e-9 || math.Abs(back.Middle+shift.Middle) > 1e-9 {
			t.Fatalf("%+v is not the mirror of %+v", back, shift)
		}
		// Where the interval excludes 0 the test rejects.
		if (shift.Low > 0 || shift.High < 0) && len(a) > 4 && len(b) > 4 && p > 0.05 {
			t.Fatalf("%v and %v: interval %+v without 0, but p = %v", a, b, shift, p)
		}
		paired := PairedInterval(a, 0.95)
		if paired.Low > paired.Middle || paired.Middle > paired.High {
			t.Fatalf("interval %+v", paired)
		}
		if p := SignedRank(a); paired.High < 0 && len(a) > 5 && p > 0.025 {
			t.Fatalf("%v: interval %+v below 0, but p = %v", a, paired, p)
		}
	}
}

// An interval of 95 % holds the truth at least that often, however the runs
// are disturbed as long as both sides are disturbed alike.
func TestIntervalsHoldTheTruth(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	const rounds = 2000
	missedShift, missedPaired := 0, 0
	for range rounds {
		a, b := sample(random, 6, 10), sample(random, 6, 11)
		if shift := ShiftInterval(a, b, 0.95); shift.Low > 1 || shift.High < 1 {
			missedShift++
		}
		differences := make([]float64, 8)
		for i, x := range sample(random, 8, 10) {
			differences[i] = sample(random, 1, 11)[0] - x
		}
		if paired := PairedInterval(differences, 0.95); paired.Low > 1 || paired.High < 1 {
			missedPaired++
		}
	}
	if missedShift > rounds*6/100 || missedPaired > rounds*6/100 {
		t.Errorf("of %d intervals %d and %d missed the truth", rounds, missedShift, missedPaired)
	}
	if missedShift == 0 || missedPaired == 0 {
		t.Error("intervals that are never wrong are too wide")
	}
}

func FuzzRanks(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{4, 5, 6})
	f.Fuzz(func(t *testing.T, rawA, rawB []byte) {
		if len(rawA) == 0 || len(rawB) == 0 || len(rawA) > 20 || len(rawB) > 20 {
			return
		}
		a, b := make([]float64, len(rawA)), make([]float64, len(rawB))
		for i, x := range rawA {
			a[i] = float64(x)
		}
		for i, x := range rawB {
			b[i] = float64(x)
		}
		if p := MannWhitney(a, b); !(p >= 0 && p <= 1) {
			t.Errorf("%v", p)
		}
		if i := ShiftInterval(a, b, 0.95); !(i.Low <= i.Middle && i.Middle <= i.High) {
			t.Errorf("%+v", i)
		}
		if p := SignedRank(a); !(p >= 0 && p <= 1) {
			t.Errorf("%v", p)
		}
		if i := PairedInterval(a, 0.95); !(i.Low <= i.Middle && i.Middle <= i.High) {
			t.Errorf("%+v", i)
		}
	})
}
