package metrics_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// family is one of a parsed page.
type family struct {
	kind    string
	samples map[string]float64 // by name and labels as written
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? ([^ ]+)$`)
	labelPair  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"`)
)

// parse is a strict reader of the text format: HELP, TYPE and samples of each
// family together, families and series once, counters named _total, histograms
// with ascending buckets that end in their count.
func parse(text string, open bool) (map[string]*family, error) {
	families := map[string]*family{}
	if open {
		body, ok := strings.CutSuffix(text, "# EOF\n")
		if !ok {
			return nil, fmt.Errorf("no EOF")
		}
		text = body
	}
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line is not complete")
	}
	var current *family
	name, helped := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# HELP "):
			helped, _, _ = strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			if !metricName.MatchString(helped) || families[helped] != nil {
				return nil, fmt.Errorf("%q: a bad name, or the second time", line)
			}
		case strings.HasPrefix(line, "# TYPE "):
			var kind string
			name, kind, _ = strings.Cut(strings.TrimPrefix(line, "# TYPE "), " ")
			if name != helped || !slices.Contains([]string{"counter", "gauge", "histogram"}, kind) {
				return nil, fmt.Errorf("%q after HELP %s", line, helped)
			}
			if kind == "counter" && strings.HasSuffix(name, "_total") == open {
				return nil, fmt.Errorf("%q: the name of a counter", line)
			}
			current = &family{kind: kind, samples: map[string]float64{}}
			families[name] = current
		default:
			m := sampleLine.FindStringSubmatch(line)
			if m == nil || current == nil {
				return nil, fmt.Errorf("%q is no sample", line)
			}
			want := []string{name}
			switch {
			case current.kind == "histogram":
				want = []string{name + "_bucket", name + "_sum", name + "_count"}
			case current.kind == "counter" && open:
				want = []string{name + "_total"}
			}
			if !slices.Contains(want, m[1]) {
				return nil, fmt.Errorf("%q in family %s", line, name)
			}
			if err := checkLabels(m[2]); err != nil {
				return nil, fmt.Errorf("%q: %v", line, err)
			}
			v, err := strconv.ParseFloat(strings.Replace(m[3], "+Inf", "Inf", 1), 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %v", line, err)
			}
			if _, again := current.samples[m[1]+m[2]]; again {
				return nil, fmt.Errorf("%q: the second time", line)
			}
			current.samples[m[1]+m[2]] = v
		}
	}
	for name, f := range families {
		if f.kind == "histogram" {
			if err := checkHistogram(name, f); err != nil {
				return nil, err
			}
		}
	}
	return families, nil
}

func checkLabels(text string) error {
	if text == "" {
		return nil
	}
	rest := text[1 : len(text)-1]
	var names []string
	for {
		pair := labelPair.FindString(rest)
		if pair == "" {
			return fmt.Errorf("labels are bad at %q", rest)
		}
		label, _, _ := strings.Cut(pair, "=")
		if slices.Contains(names, label) {
			return fmt.Errorf("label %s twice", label)
		}
		names = append(names, label)
		rest = rest[len(pair):]
		if rest == "" {
			return nil
		}
		if rest[0] != ',' {
			return fmt.Errorf("labels are bad at %q", rest)
		}
		rest = rest[1:]
	}
}

func checkHistogram(name string, f *family) error {
	type bucket struct{ le, n float64 }
	var buckets []bucket
	for series, n := range f.samples {
		if le, ok := strings.CutPrefix(series, name+`_bucket{le="`); ok {
			bound, err := strconv.ParseFloat(strings.Replace(strings.TrimSuffix(le, `"}`), "+Inf", "Inf", 1), 64)
			if err != nil {
				return fmt.Errorf("%s: %v", series, err)
			}
			buckets = append(buckets, bucket{bound, n})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return int(max(-1, min(1, (a.le-b.le)*1e12))) })
	for i := 1; i < len(buckets); i++ {
		if buckets[i].n < buckets[i-1].n {
			return fmt.Errorf("%s: %v come down", name, buckets)
		}
	}
	last := len(buckets) - 1
	if last < 1 || buckets[last].le < 1e300 || buckets[last].n != f.samples[name+"_count"] {
		return fmt.Errorf("%s: buckets %v, count %v", name, buckets, f.samples[name+"_count"])
	}
	return nil
}
