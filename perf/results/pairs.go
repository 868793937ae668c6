package results

import "github.com/basaltmq/basaltmq/perf/stats"

// fewestPairs below which not even pairs that all agree are significant.
const fewestPairs = 6

// ComparePairs sets runs of b against those of a that were made right beside
// them: run i of one belongs to run i of the other. All are of one load. The
// test is the signed rank test, two-sided, and the interval the one that
// belongs to it.
func ComparePairs(labelA string, a []Run, labelB string, b []Run) *Comparison {
	c := Compare(labelA, a, labelB, b)
	c.Paired = true
	for i := range c.Rows {
		row := &c.Rows[i]
		// A run without the figure would shift the others against each other.
		if len(row.A) != len(a) || len(row.B) != len(b) || len(a) != len(b) {
			row.Verdict, row.P = VerdictNone, 1
			continue
		}
		row.pair()
	}
	return c
}

// pair replaces what the row says of independent samples.
func (row *Row) pair() {
	logsA, okA := stats.Logs(row.A)
	logsB, okB := stats.Logs(row.B)
	if !okA || !okB {
		row.Verdict, row.P = VerdictNone, 1
		return
	}
	gains, losses := make([]float64, len(logsA)), make([]float64, len(logsA))
	for i := range gains {
		gains[i], losses[i] = logsB[i]-logsA[i], logsA[i]-logsB[i]
	}
	interval := stats.PairedInterval(gains, confidence).Exp()
	row.Ratio, row.Low, row.High = interval.Middle, interval.Low, interval.High
	row.P = min(1, 2*min(stats.SignedRank(gains), stats.SignedRank(losses)))
	row.judge(len(gains) < fewestPairs)
}
