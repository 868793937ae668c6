package stats

import (
	"cmp"
	"math"
	"slices"
)

// MannWhitney returns the probability that two samples of one distribution
// differ at least as much as these do, in either direction (Mann and Whitney
// 1947). Ties count half; 1 when a sample is empty.
//
// With 3 samples each it can't be below 0.1, with 4 below 0.03, with 5 below
// 0.008.
func MannWhitney(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	u := 0.0 // pairs in which b is larger
	for _, x := range a {
		for _, y := range b {
			switch cmp.Compare(y, x) {
			case 1:
				u++
			case 0:
				u += 0.5
			}
		}
	}
	// Whichever side it leans to: the tail from there outward, twice.
	u = min(u, float64(len(a)*len(b))-u)
	return min(1, 2*tail(mannWhitneyCounts(len(a), len(b)), u))
}

// ShiftInterval estimates by how much b lies above a: the median of all
// differences, and the interval that goes with [MannWhitney]. With so few
// samples that no interval has the confidence, it is the widest there is, from
// the smallest difference to the largest. The samples must not be empty.
func ShiftInterval(a, b []float64, confidence float64) Interval {
	differences := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			differences = append(differences, y-x)
		}
	}
	return orderInterval(differences, mannWhitneyCounts(len(a), len(b)), confidence)
}

// SignedRank returns the probability that differences which are as likely
// above 0 as below come out at least as negative as these (Wilcoxon 1945), one
// direction only. Zeros count half on both sides; 1 for no differences.
//
// With 5 pairs it can't be below 0.031, with 8 below 0.004.
func SignedRank(differences []float64) float64 {
	if len(differences) == 0 {
		return 1
	}
	positive := 0.0 // Walsh averages above 0: the sum of the positive ranks (Tukey 1949)
	for _, average := range walshAverages(differences) {
		switch cmp.Compare(average, 0) {
		case 1:
			positive++
		case 0:
			positive += 0.5
		}
	}
	return min(1, tail(signedRankCounts(len(differences)), positive))
}

// PairedInterval estimates the middle of differences of pairs: the median of
// all averages of two, and the interval that goes with [SignedRank] in both
// directions. With so few pairs that no interval has the confidence, it is
// the widest there is. There must be at least one difference.
func PairedInterval(differences []float64, confidence float64) Interval {
	return orderInterval(walshAverages(differences), signedRankCounts(len(differences)), confidence)
}

// walshAverages are the averages of all pairs, each value with itself too.
func walshAverages(values []float64) []float64 {
	averages := make([]float64, 0, len(values)*(len(values)+1)/2)
	for i, x := range values {
		for _, y := range values[:i+1] {
			averages = append(averages, x/2+y/2)
		}
	}
	return averages
}

// orderInterval takes as many values off both ends as the distribution of the
// statistic allows: the truth lies below all but off of them with the
// probability that the statistic is at most off.
func orderInterval(values, counts []float64, confidence float64) Interval {
	slices.Sort(values)
	off := 0
	for off+1 <= (len(values)-1)/2 && 2*tail(counts, float64(off+1)) <= 1-confidence {
		off++
	}
	return Interval{Low: values[off], Middle: medianOfSorted(values), High: values[len(values)-1-off]}
}

// tail is the probability of at most the statistic, rounded up to the next
// value that can happen.
func tail(counts []float64, statistic float64) float64 {
	below, total := 0.0, 0.0
	for value, count := range counts {
		total += count
		if float64(value) <= math.Ceil(statistic) {
			below += count
		}
	}
	return below / total
}

// mannWhitneyCounts returns in how many ways two samples of sizes n and m can
// be interleaved so that the statistic has each value from 0 to n·m: the
// coefficients of the Gaussian binomial, built factor by factor.
func mannWhitneyCounts(n, m int) []float64 {
	counts := make([]float64, n*m+1)
	counts[0] = 1
	for i := 1; i <= n; i++ {
		// Times (1-q^(m+i)), then divided by (1-q^i).
		for value := n * m; value >= m+i; value-- {
			counts[value] -= counts[value-m-i]
		}
		for value := i; value <= n*m; value++ {
			counts[value] += counts[value-i]
		}
	}
	return counts
}

// signedRankCounts returns for how many of the 2^n choices of signs the sum of
// the positive ranks has each value from 0 to n(n+1)/2.
func signedRankCounts(n int) []float64 {
	counts := make([]float64, n*(n+1)/2+1)
	counts[0] = 1
	for rank := 1; rank <= n; rank++ {
		for value := len(counts) - 1; value >= rank; value-- {
			counts[value] += counts[value-rank]
		}
	}
	return counts
}
