package results

import (
	"cmp"
	"slices"
	"strings"
)

// section is the results of one release and broker in one environment.
type section struct {
	release string
	broker  string // empty while there are only yardsticks
	results []*Recorded
}

// broker names the broker that was measured; empty for yardsticks.
func (r *Recorded) broker() string {
	return strings.TrimSpace(r.Head.Versions.BrokerProduct + " " + r.Head.Versions.BrokerVersion)
}

// takes reports whether a result belongs into the section. Yardsticks go to
// the first section of their machine.
func (s *section) takes(result *Recorded) bool {
	return s.release == result.Release &&
		describeEnvironment(s.results[0]) == describeEnvironment(result) &&
		(s.broker == result.broker() || s.broker == "" || result.broker() == "")
}

// sections groups results; the newest comes first.
func sections(results []*Recorded) []*section {
	var all []*section
	for _, result := range results {
		index := slices.IndexFunc(all, func(s *section) bool { return s.takes(result) })
		if index < 0 {
			all = append(all, &section{release: result.Release})
			index = len(all) - 1
		}
		all[index].results = append(all[index].results, result)
		all[index].broker = cmp.Or(all[index].broker, result.broker())
	}
	slices.SortStableFunc(all, func(a, b *section) int {
		return cmp.Or(b.newest().Compare(a.newest()), cmp.Compare(a.release, b.release))
	})
	return all
}
