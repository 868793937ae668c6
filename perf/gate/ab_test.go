package gate

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
)

// Pairs show a small difference through a drift that is far larger, in a few
// turns, and name none where there is none.
func TestPairsSeeThroughDrift(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pairs   int
		factor  float64
		verdict string
	}{
		"better": {8, 1.03, results.VerdictBetter}, "worse": {8, 0.97, results.VerdictWorse}, "same": {8, 1, results.VerdictSame}, "few": {5, 1.03, results.VerdictFew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			var order strings.Builder
			runs, err := turns(test.pairs, nil, func(side int) (results.Run, error) {
				rate := 1e6 * math.Exp(-0.02*float64(n)) * []float64{1, test.factor}[side]
				n++
				order.WriteByte("AB"[side])
				return results.Run{Head: results.Head{Scenario: "throughput"}, Figures: []results.Figure{{Name: "consumed_per_s", Value: rate, Unit: "/s", Better: results.More}}}, nil
			})
			if err != nil || !strings.HasPrefix(order.String(), "ABBAABBA") || n != 2*test.pairs {
				t.Fatalf("%s, %v", order.String(), err)
			}
			c := results.ComparePairs("old", runs[0], "new", runs[1])
			row := c.Rows[0]
			if row.Verdict != test.verdict || row.Low > row.Ratio || row.Ratio > row.High || row.P < 0 || row.P > 1 {
				t.Errorf("%+v", row)
			}
			if test.factor != 1 && (math.Abs(row.Ratio-test.factor) > 0.021 || test.pairs%2 == 0 && math.Abs(row.Ratio-test.factor) > 0.001) {
				t.Errorf("ratio %v, want %v", row.Ratio, test.factor)
			}
			var text bytes.Buffer
			c.WriteText(&text)
			if !strings.Contains(text.String(), "Signed rank test") || !strings.Contains(text.String(), "A: old\nB: new\n") {
				t.Errorf("%s", text.String())
			}
		})
	}
}

func TestTurnsEndWithTheFirstError(t *testing.T) {
	t.Parallel()
	n := 0
	_, err := turns(3, nil, func(int) (results.Run, error) {
		if n++; n == 3 {
			return results.Run{}, errors.New("no broker")
		}
		return results.Run{}, nil
	})
	if err == nil || err.Error() != "B: no broker" || n != 3 {
		t.Errorf("%v after %d runs", err, n)
	}
}

// A run that lacks a figure leaves no pairs of it: those behind it would be of
// runs that were not made beside each other.
func TestPairsOfAMissingFigure(t *testing.T) {
	t.Parallel()
	run := func(figures ...string) (r results.Run) {
		for i, name := range figures {
			r.Figures = append(r.Figures, results.Figure{Name: name, Value: float64(i + 1), Better: results.More})
		}
		return r
	}
	a := []results.Run{run("x", "y"), run("x"), run("x", "y")}
	b := []results.Run{run("x"), run("x", "y"), run("x", "y")}
	for _, row := range results.ComparePairs("a", a, "b", b).Rows {
		if want := map[string]string{"x": results.VerdictFew, "y": results.VerdictNone}[row.Figure]; row.Verdict != want {
			t.Errorf("%s: %s, want %s", row.Figure, row.Verdict, want)
		}
	}
}
