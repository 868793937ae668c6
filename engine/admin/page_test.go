package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// thing is an element of the lists under test.
type thing struct {
	Name string          `json:"name"`
	N    int             `json:"n"`
	Deep map[string]bool `json:"deep"`
}

// pageOf is what a page answers.
type pageOf struct {
	Filtered int `json:"filtered_count"`
	Items    int `json:"item_count"`
	Page     int
	Pages    int     `json:"page_count"`
	Size     int     `json:"page_size"`
	Total    int     `json:"total_count"`
	List     []thing `json:"items"`
}

// TestPage: what a list shows of anything is what a naive one shows, whether it is
// in order already, orders itself, or knows a key.
func TestPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []thing
		for i := range rapid.IntRange(0, 60).Draw(t, "things") {
			name := rapid.StringMatching(`[a-cA-C]{1,3}\.[0-9]`).Draw(t, "name")
			all = append(all, thing{name + strconv.Itoa(i), rapid.IntRange(0, 4).Draw(t, "n"), map[string]bool{"x": rapid.Bool().Draw(t, "x")}})
		}
		query := url.Values{}
		set := func(name string, values ...string) string {
			v := rapid.SampledFrom(values).Draw(t, name)
			if v != "" {
				query.Set(name, v)
			}
			return v
		}
		page := set("page", "", "1", "2", "3", "99999999999999999")
		size := set("page_size", "", "1", "7", "500")
		filter := set("name", "", "a", "B.", "^[ab]", "c$")
		pattern := set("use_regex", "", "true") != ""
		sorted := set("sort", "", "name", "n", "deep.x", "none")
		reverse := set("sort_reverse", "", "true") != ""

		// The naive list.
		byName := func(a, b thing) int { return strings.Compare(a.Name, b.Name) }
		want := slices.Clone(all)
		slices.SortStableFunc(want, byName)
		want = slices.DeleteFunc(want, func(a thing) bool {
			if pattern {
				return !regexp.MustCompile("(?i)" + filter).MatchString(a.Name)
			}
			return !strings.Contains(strings.ToLower(a.Name), strings.ToLower(filter))
		})
		sign := 1
		if reverse {
			sign = -1
		}
		number := map[bool]int{true: 1}
		slices.SortStableFunc(want, func(a, b thing) int {
			switch sorted {
			case "", "name":
				return sign * byName(a, b)
			case "n":
				return sign * cmp.Compare(a.N, b.N)
			case "deep.x":
				return sign * cmp.Compare(number[a.Deep["x"]], number[b.Deep["x"]])
			}
			return 0
		})

		l := listing[thing]{all: slices.Clone(all), name: func(a thing) string { return a.Name }, order: byName, show: func(a thing, _ *view) any { return a }}
		if rapid.Bool().Draw(t, "in order already") {
			slices.SortStableFunc(l.all, byName)
			l.order = nil
		}
		if rapid.Bool().Draw(t, "knows a key") {
			l.key = func(a thing, path string) (any, bool) { return float64(a.N), path == "n" }
		}
		w := httptest.NewRecorder()
		q := &request{Request: httptest.NewRequest("GET", "/api/things?"+query.Encode(), nil), w: w}
		_, err := sendList(q, l)
		n, sizeN := len(want), 100
		if size != "" {
			sizeN, _ = strconv.Atoi(size)
		}
		pages := (n + sizeN - 1) / sizeN
		if page == "" {
			var got []thing
			if err != nil || json.Unmarshal(w.Body.Bytes(), &got) != nil || !slices.EqualFunc(got, want, sameThing) {
				t.Fatalf("%s: %v, %s\nwant %v", query.Encode(), err, w.Body, want)
			}
			return
		}
		pageN, _ := strconv.Atoi(page)
		if pageN > max(pages, 1) {
			if err == nil {
				t.Fatalf("%s of %d: %s", query.Encode(), n, w.Body)
			}
			return
		}
		var got pageOf
		if err != nil || json.Unmarshal(w.Body.Bytes(), &got) != nil {
			t.Fatalf("%s: %v %s", query.Encode(), err, w.Body)
		}
		part := want[min(n, (pageN-1)*sizeN):min(n, pageN*sizeN)]
		if !slices.EqualFunc(got.List, part, sameThing) || got.Filtered != n || got.Total != len(all) || got.Items != len(part) || got.Page != pageN || got.Size != sizeN || got.Pages != pages {
			t.Fatalf("%s: %s\nwant %v of %v", query.Encode(), w.Body, part, want)
		}
	})
}

func sameThing(a, b thing) bool { return a.Name == b.Name && a.N == b.N && a.Deep["x"] == b.Deep["x"] }

// TestPage_Refused: what cannot be meant.
func TestPage_Refused(t *testing.T) {
	h := newTestHandler(t)
	for query, want := range map[string]string{
		"page=0":                "invalid_pagination_parameters",
		"page=x":                "invalid_pagination_parameters",
		"page=-1":               "invalid_pagination_parameters",
		"page_size=100000":      "invalid_pagination_parameters",
		"page=2":                "page_out_of_range",
		"name=(&use_regex=true": "bad_request",
	} {
		w := as(h, "", "GET", "/api/queues?"+query, "")
		var reply errorReply
		if json.Unmarshal(w.Body.Bytes(), &reply) != nil || w.Code != 400 || reply.Error != want {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
}

// TestColumns: the part of an object that is shown is what a naive filter keeps.
func TestColumns(t *testing.T) {
	var draw func(t *rapid.T, depth int) any
	draw = func(t *rapid.T, depth int) any {
		switch n := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case n == 0:
			return rapid.String().Draw(t, "text")
		case n == 1:
			return rapid.Float64Range(-5, 5).Draw(t, "number")
		case n == 2 || depth > 3:
			return rapid.Bool().Draw(t, "truth")
		case n == 3:
			return nil
		case n == 4:
			list := []any{}
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				list = append(list, draw(t, depth+1))
			}
			return list
		}
		object := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			object[rapid.SampledFrom([]string{"a", "b", "c", `q"\`, "é"}).Draw(t, "name")] = draw(t, depth+1)
		}
		return object
	}
	var naive func(c columns, v any) any
	naive = func(c columns, v any) any {
		if c == nil {
			return v
		}
		switch v := v.(type) {
		case map[string]any:
			kept := map[string]any{}
			for name, value := range v {
				if below, asked := c[name]; asked {
					kept[name] = naive(below, value)
				}
			}
			return kept
		case []any:
			kept := []any{}
			for _, value := range v {
				kept = append(kept, naive(c, value))
			}
			return kept
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t, 0)
		var paths []string
		for range rapid.IntRange(1, 4).Draw(t, "columns") {
			paths = append(paths, strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "é", ""}), 1, 3).Draw(t, "path"), "."))
		}
		c := parseColumns(strings.Join(paths, ","))
		got, want := string(c.pick(nil, marshal(v))), string(marshal(naive(c, v)))
		var gotValue, wantValue any
		if c != nil && (json.Unmarshal([]byte(got), &gotValue) != nil || json.Unmarshal([]byte(want), &wantValue) != nil || fmt.Sprint(gotValue) != fmt.Sprint(wantValue)) {
			t.Fatalf("%q of %s: %s, want %s", paths, marshal(v), got, want)
		}
		for name := range map[string]bool{"a": true, "b": true} {
			if object, ok := v.(map[string]any); ok {
				found := keyIn(marshal(v), []string{name})
				switch object[name].(type) {
				case bool, float64, string:
					if found != object[name] && string(marshal(found)) != string(marshal(object[name])) {
						t.Fatalf("%s of %s: %v", name, marshal(v), found)
					}
				default:
					if found != nil {
						t.Fatalf("%s of %s: %v", name, marshal(v), found)
					}
				}
			}
		}
	})
}

// TestFirstOf: the first elements are those of the sorted list.
func TestFirstOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 300).Draw(t, "all")
		n := rapid.IntRange(0, len(all)).Draw(t, "n")
		before := slices.Clone(all)
		got := firstOf(slices.Values(all), len(all), n, cmp.Compare[int])
		if !slices.Equal(all, before) || !slices.Equal(got[:n], slices.Sorted(slices.Values(all))[:n]) {
			t.Fatalf("the first %d of %v: %v", n, all, got)
		}
	})
}

// TestBindings_ByKey: each binding is found, and removed, by the key that it is
// shown with, and by the place that making it answers.
func TestBindings_ByKey(t *testing.T) {
	h := newTestHandler(t)
	must(t, h, "PUT", "/api/vhosts/v%2Fw", "")
	must(t, h, "PUT", "/api/queues/v%2Fw/q%2Fq", "")
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.SampledFrom([]rune("a~#*./%+ é&?=")), 0, 8, 60).Draw(t, "key")
		body := map[string]any{"routing_key": key}
		if rapid.Bool().Draw(t, "arguments") {
			body["arguments"] = map[string]any{"x": rapid.IntRange(0, 3).Draw(t, "x"), "y": "z/~"}
		}
		const between = "/api/bindings/v%2Fw/e/amq.headers/q/q%2Fq"
		w := as(h, "", "POST", between, string(marshal(body)))
		if w.Code != 201 {
			t.Fatalf("%q: %d %s", key, w.Code, w.Body)
		}
		var list []Binding
		if err := json.Unmarshal(as(h, "", "GET", between, "").Body.Bytes(), &list); err != nil || len(list) != 1 || list[0].RoutingKey != key {
			t.Fatalf("%q: %v %v", key, list, err)
		}
		_, props, _ := strings.Cut(w.Header().Get("Location"), "/")
		located, err := url.QueryUnescape(props)
		if err != nil || located != list[0].PropertiesKey {
			t.Fatalf("%q: Location is %q, the key %q", key, w.Header().Get("Location"), list[0].PropertiesKey)
		}
		one := between + "/" + url.PathEscape(list[0].PropertiesKey)
		if w := as(h, "", "GET", one, ""); w.Code != 200 {
			t.Fatalf("GET %s: %d %s", one, w.Code, w.Body)
		}
		if w := as(h, "", "DELETE", one, ""); w.Code != 204 {
			t.Fatalf("DELETE %s: %d %s", one, w.Code, w.Body)
		}
	})
}

// TestPage_Patterns: an expression that would take long for each name is refused.
func TestPage_Patterns(t *testing.T) {
	h := newTestHandler(t)
	for pattern, status := range map[string]int{
		"^amq[.](direct|topic)$": 200, strings.Repeat("n", 255): 200, "[a-z]{1,50}": 200,
		"(x?){1000}": 400, "((a|b?){10}){20}": 400, strings.Repeat("x", 400): 400, "(": 400,
	} {
		if w := as(h, "", "GET", "/api/exchanges?page=1&use_regex=true&name="+url.QueryEscape(pattern), ""); w.Code != status {
			t.Errorf("%.30q: %d %s", pattern, w.Code, w.Body)
		}
	}
}
