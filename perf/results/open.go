package results

import (
	"fmt"
	"io"
	"slices"
)

// Open is the JSON result that scripts/bench/open.sh records: how long a broker
// takes to open a data directory.
type Open struct {
	Starts []OpenStart `json:"starts"`
}

// OpenStart is one start.
type OpenStart struct {
	Case         string  `json:"case"` // what the directory holds: backlog, queues
	Stop         string  `json:"stop"` // how the broker before ended: clean, kill
	Cold         bool    `json:"cold"` // with an empty page cache
	Queues       int     `json:"queues"`
	Messages     int64   `json:"messages"`
	Milliseconds float64 `json:"milliseconds"` // from exec to the start line
}

func (o *Open) check() error {
	if len(o.Starts) == 0 {
		return fmt.Errorf("the result has no starts")
	}
	for _, start := range o.Starts {
		if start.Milliseconds <= 0 || start.Queues == 0 {
			return fmt.Errorf("a start has no time, or found nothing")
		}
	}
	return nil
}

func (s *section) renderOpen(w io.Writer) {
	_, groups := runs(s, func(r *Recorded) *Open { return r.Open })
	if len(groups) == 0 {
		return
	}
	io.WriteString(w, "\n### Opening a data directory\n\nFrom exec to the start line; the broker before was stopped in good order (clean) or killed.\n\n"+
		"| queues | messages | stop | page cache | ms | runs |\n|---:|---:|---|---|---:|---:|\n")
	for _, group := range groups {
		times := map[OpenStart][]float64{}
		var order []OpenStart
		for _, result := range group {
			for _, start := range result.Starts {
				key := start
				key.Milliseconds = 0
				if times[key] == nil {
					order = append(order, key)
				}
				times[key] = append(times[key], start.Milliseconds)
			}
		}
		for _, key := range order {
			cache := "warm"
			if key.Cold {
				cache = "cold"
			}
			slices.Sort(times[key])
			fmt.Fprintf(w, "| %s | %s | %s | %s | %.0f | %d |\n", HumanCount(uint64(key.Queues)), HumanCount(uint64(key.Messages)),
				tableCell(key.Stop), cache, times[key][len(times[key])/2], len(times[key]))
		}
	}
}
