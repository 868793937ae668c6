package admin

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/metrics"
)

// detail is how much a list says of its elements.
type detail uint8

const (
	detailFull   detail = iota
	detailTotals        // disable_stats and enable_queue_totals: how many messages
	detailBasic         // disable_stats: what was declared
)

// view is what the query string asks of a list: which part, in which order, and
// which fields. Everything that can be is decided before an element is looked at:
// what is not shown costs a pointer.
type view struct {
	paged      bool
	page, size int
	matches    func(name string) bool // nil: all
	sort       []string               // path of a field; nil: as it comes
	reverse    bool
	columns    columns
	detail     detail
	spans      metrics.Spans // samples of rates and lengths
}

func (q *request) view() (v view, err error) {
	values := q.URL.Query()
	v.size = pageSizeDefault
	for _, n := range []struct {
		name string
		into *int
	}{{"page", &v.page}, {"page_size", &v.size}} {
		text := values.Get(n.name)
		if text == "" {
			continue
		}
		if *n.into, err = strconv.Atoi(text); err != nil || *n.into < 1 {
			return v, badPage("'%s' must be a whole number from 1 on", n.name)
		}
		v.paged = v.paged || n.name == "page"
	}
	if v.size > pageSizeMax {
		return v, badPage("'page_size' must be at most %d", pageSizeMax)
	}
	if v.matches, err = nameFilter(values.Get("name"), values.Get("use_regex") == "true"); err != nil {
		return v, err
	}
	if s := values.Get("sort"); s != "" {
		v.sort = strings.Split(s, ".")
	}
	v.spans = metrics.SpansOf(values)
	v.reverse = values.Get("sort_reverse") == "true"
	v.columns = parseColumns(values.Get("columns"))
	if values.Get("disable_stats") == "true" {
		v.detail = detailBasic
		if values.Get("enable_queue_totals") == "true" {
			v.detail = detailTotals
		}
	}
	return v, nil
}

func badPage(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, name: "invalid_pagination_parameters", text: "Invalid pagination parameters: " + fmt.Sprintf(format, args...)}
}

// nameFilter makes a test of names: part of it, or an expression; case does not
// matter.
func nameFilter(text string, isPattern bool) (func(string) bool, error) {
	if text == "" {
		return nil, nil
	}
	if !isPattern {
		text = strings.ToLower(text)
		return func(name string) bool { return strings.Contains(strings.ToLower(name), text) }, nil
	}
	if len(text) > patternBytesMax {
		return nil, problemf(http.StatusBadRequest, "the pattern for names is too long")
	}
	text = "(?i)" + text
	if err := access.CheckPattern(text, patternStatesMax); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "'name' is not a regular expression: %v", err)
	}
	return re.MatchString, nil
}

// listing is a list that has not been looked at yet.
type listing[T any] struct {
	all  []T
	name func(T) string
	// order compares elements; nil: all is in order.
	order func(a, b T) int
	// key returns a field without making everything else; ok is false where it
	// does not know how. nil: it never does.
	key func(of T, path string) (value any, ok bool)
	// show makes what is sent.
	show func(of T, v *view) any
}

// paged answers with a short list that is made already.
func paged[T any](q *request, all []T) (any, error) {
	return sendList(q, listing[T]{all: all, show: func(v T, _ *view) any { return v }})
}

// sendList answers with the part of a list that the request asks for.
func sendList[T any](q *request, l listing[T]) (any, error) {
	v, err := q.view()
	if err != nil {
		return nil, err
	}
	total := len(l.all)
	shown := l.all
	if v.matches != nil {
		ctx := q.Context()
		shown = slices.DeleteFunc(slices.Clone(shown), func(of T) bool { return ctx.Err() != nil || !v.matches(l.nameOf(of)) })
	}
	filtered := len(shown)
	from, to := 0, filtered
	if v.paged {
		// Divided, not multiplied: a page's number may be anything.
		if v.page > 1 && v.page-1 > max(filtered-1, 0)/v.size {
			return nil, &problem{status: http.StatusBadRequest, name: "page_out_of_range", text: fmt.Sprintf("Page out of range, page: %d page size: %d, len: %d", v.page, v.size, filtered)}
		}
		from = (v.page - 1) * v.size
		to = min(from+v.size, filtered)
	}
	shown = l.ordered(&v, shown, to)[from:to]

	q.w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(q.w, listBufferBytes)
	if v.paged {
		out.WriteString(`{"filtered_count":` + strconv.Itoa(filtered) + `,"item_count":` + strconv.Itoa(len(shown)) +
			`,"page":` + strconv.Itoa(v.page) + `,"page_count":` + strconv.Itoa((filtered+v.size-1)/v.size) +
			`,"page_size":` + strconv.Itoa(v.size) + `,"total_count":` + strconv.Itoa(total) + `,"items":`)
	}
	l.write(out, &v, shown)
	if v.paged {
		out.WriteString("}")
	}
	out.WriteString("\n")
	_ = out.Flush() // the client is gone
	return nil, nil
}

// write sends elements one by one; it ends early when the client is gone.
func (l *listing[T]) write(out *bufio.Writer, v *view, shown []T) {
	out.WriteByte('[')
	encode := encoder(out)
	for i, of := range shown {
		if i > 0 {
			out.WriteByte(',')
		}
		var err error
		if v.columns == nil {
			err = encode.Encode(l.show(of, v))
		} else {
			_, err = out.Write(v.columns.pick(nil, marshal(l.show(of, v))))
		}
		if err != nil {
			return
		}
	}
	out.WriteByte(']')
}

// marshal is json.Marshal without HTML's escapes, of what cannot fail.
func marshal(v any) json.RawMessage {
	var b strings.Builder
	_ = encoder(&b).Encode(v)
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

func (l *listing[T]) nameOf(of T) string {
	if l.name != nil {
		return l.name(of)
	}
	name, _ := keyIn(marshal(l.show(of, &view{detail: detailBasic})), []string{"name"}).(string)
	return name
}

// ordered returns the elements in the order asked for; at least the first need of
// them are in their places.
func (l *listing[T]) ordered(v *view, all []T, need int) []T {
	switch {
	case v.sort != nil:
	case l.order == nil && v.reverse:
		all = slices.Clone(all)
		slices.Reverse(all)
		return all
	case l.order == nil:
		return all
	case v.reverse:
		return firstOf(slices.Values(all), len(all), need, func(a, b T) int { return l.order(b, a) })
	default:
		return firstOf(slices.Values(all), len(all), need, l.order)
	}
	type keyed struct {
		of    T
		key   any
		place int // so that equals stay in order
	}
	path := strings.Join(v.sort, ".")
	withKeys := func(yield func(keyed) bool) {
		for i, of := range all {
			if !yield(keyed{of, l.keyOf(of, path, v.sort), i}) {
				return
			}
		}
	}
	compare := func(a, b keyed) int {
		c := compareKeys(a.key, b.key)
		if v.reverse {
			c = -c
		}
		if c == 0 && l.order != nil {
			c = l.order(a.of, b.of)
		}
		return cmp.Or(c, cmp.Compare(a.place, b.place))
	}
	list := firstOf(withKeys, len(all), need, compare)
	out := make([]T, len(list))
	for i := range list {
		out[i] = list[i].of
	}
	return out
}

func (l *listing[T]) keyOf(of T, path string, segments []string) any {
	if path == "name" && l.name != nil {
		return l.name(of)
	}
	if l.key != nil {
		if v, ok := l.key(of, path); ok {
			return v
		}
	}
	return keyIn(marshal(l.show(of, &view{})), segments)
}

// compareKeys orders what is missing before false and true, numbers, and texts.
func compareKeys(a, b any) int {
	rank := func(v any) int {
		switch v.(type) {
		case bool:
			return 1
		case float64:
			return 2
		case string:
			return 3
		}
		return 0
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		switch {
		case a == b.(bool):
			return 0
		case a:
			return 1
		}
		return -1
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	}
	return 0
}
