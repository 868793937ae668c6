package stats

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSeries_AgainstList: the ring holds the latest samples, and rates and samples
// are what a plain list says.
func TestSeries_AgainstList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Series{schema: QueueFigures, rowsMax: rapid.IntRange(2, 6).Draw(t, "rows")}
		var list []Sample
		now := int64(1000)
		for range rapid.IntRange(0, 20).Draw(t, "samples") {
			now += rapid.Int64Range(0, 9000).Draw(t, "later")
			p := Point{Ready: rapid.Uint64Range(0, 100).Draw(t, "ready"), Unacked: 1}
			s.add(now, &p)
			if n := len(list); n > 0 && list[n-1].At == now {
				list[n-1].Value = p.Ready
			} else {
				list = append(list, Sample{p.Ready, now})
			}
			list = list[max(0, len(list)-s.rowsMax):]
		}
		span := Span{rapid.Int64Range(1, 60).Draw(t, "age"), rapid.Int64Range(1, 10).Draw(t, "increment")}
		d := s.details(Ready, span)
		n := len(list)
		want := Details{}
		if n > 1 {
			want.Rate = (float64(list[n-1].Value) - float64(list[n-2].Value)) / (float64(list[n-1].At-list[n-2].At) / 1000)
		}
		if diff := d.Rate - want.Rate; diff > 1e-9 || diff < -1e-9 {
			t.Fatalf("rate %v, want %v of %v", d.Rate, want.Rate, list)
		}
		if n == 0 {
			if d.Samples != nil {
				t.Fatalf("samples of nothing: %v", d.Samples)
			}
			return
		}
		for back := int64(0); back <= span.Age; back += span.Increment {
			at := list[n-1].At - 1000*back
			i := n - 1
			for i >= 0 && list[i].At > at {
				i--
			}
			if i >= 0 {
				want.Samples = append(want.Samples, Sample{list[i].Value, at})
			}
		}
		if !slices.Equal(d.Samples, want.Samples) {
			t.Fatalf("samples %v, want %v of %v", d.Samples, want.Samples, list)
		}
		if m := s.details(Messages, Span{}); m.Samples != nil {
			t.Fatal("samples that nobody asked for")
		}
	})
}

// TestSampler_ForgetsAfterAMinute: objects are sampled while they are asked for.
func TestSampler_ForgetsAfterAMinute(t *testing.T) {
	t.Parallel()
	s := NewSampler()
	s.Keep("always", TotalFigures)
	now, published := int64(1_000_000), uint64(0)
	looked := map[any]int{}
	tick := func() {
		now += Interval.Milliseconds()
		published += 50
		s.Tick(now, func(key any) (Point, Outcome) {
			looked[key]++
			if key == "gone" {
				return Point{}, Gone
			}
			return Point{Counts: Counts{Publish: published}}, Seen
		})
	}
	tick()
	v := s.Watch("q", QueueFigures, Point{Counts: Counts{Publish: published}}, now)
	s.Watch("gone", QueueFigures, Point{}, now)
	if d := v.Details(Figure(Publish), Span{}); d.Rate != 0 {
		t.Errorf("rate %v after one sample", d.Rate)
	}
	tick()
	if d := v.Details(Figure(Publish), Span{}); d.Rate != 10 {
		t.Errorf("rate %v, want 10 a second", d.Rate)
	}
	for range 12 {
		tick()
	}
	if looked["always"] != 14 || looked["q"] != 12 || looked["gone"] != 1 {
		t.Errorf("looked at %v", looked)
	}
	if s.watched != 0 || len(s.series) != 1 {
		t.Errorf("%d watched, %d series are left", s.watched, len(s.series))
	}
	if known := s.Known("always"); known.Point.Counts[Publish] != published {
		t.Errorf("known: %v", known.Point)
	}
}

func TestSampler_Bounded(t *testing.T) {
	t.Parallel()
	s := NewSampler()
	for i := range watchedMax + 10 {
		s.Watch(i, QueueFigures, Point{Ready: 7}, 1)
	}
	if len(s.series) != watchedMax {
		t.Errorf("%d series", len(s.series))
	}
	v := s.Watch("one more", QueueFigures, Point{Ready: 7}, 1)
	if v.Details(Ready, Span{60, 5}).Samples != nil || v.Point.Ready != 7 {
		t.Error("what is not sampled has its present state and no samples")
	}
}

// TestMessageStats_AlwaysNumbers: whatever the time between two looks, none or a
// step back included, what comes of it are numbers that JSON has.
func TestMessageStats_AlwaysNumbers(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]int64{{0}, {0, 0, 0}, {1, 1, 1}, {100, 0, 900}, {-5000, 5000}, {5000, -5000, 0, 1}} {
		s := NewSampler()
		p := Point{Counts: Counts{Publish: 5}}
		now := int64(1_000_000)
		s.Watch("q", QueueFigures, p, now)
		for _, step := range steps {
			now += step
			p.Counts[Publish] += 7
			s.Tick(now, func(any) (Point, Outcome) { return p, Seen })
			v := s.Watch("q", QueueFigures, p, now)
			for _, span := range []Span{{}, {Age: 1, Increment: 1}, {Age: 60, Increment: 5}} {
				for f := range figures {
					if d := v.Details(f, span); math.IsNaN(d.Rate) || math.IsInf(d.Rate, 0) {
						t.Fatalf("steps of %v ms: rate %v", steps, d.Rate)
					}
				}
				if raw, err := json.Marshal(v.QueueStats(span)); err != nil || !json.Valid(raw) {
					t.Fatalf("steps of %v ms: %s, %v", steps, raw, err)
				}
			}
		}
	}
}

// TestMessageStats_JSON: the names and shapes of RabbitMQ's API.
func TestMessageStats_JSON(t *testing.T) {
	t.Parallel()
	s := NewSampler()
	p := Point{Counts: Counts{Publish: 5, Deliver: 2, GetNoAck: 1}}
	s.Watch("q", QueueFigures, p, 1000)
	p.Counts[Publish] = 15
	s.Tick(6000, func(any) (Point, Outcome) { return p, Seen })
	v := s.Watch("q", QueueFigures, p, 6000)
	raw, err := json.Marshal(v.QueueStats(Span{5, 5}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if got["publish"] != 15.0 || got["deliver_get"] != 3.0 || got["get_no_ack"] != 1.0 {
		t.Errorf("%s", raw)
	}
	details, _ := got["publish_details"].(map[string]any)
	samples, _ := details["samples"].([]any)
	if details["rate"] != 2.0 || details["avg_rate"] != 2.0 || details["avg"] != 10.0 || len(samples) != 2 {
		t.Errorf("%s", raw)
	}
	for f := range figures {
		if f.String() == "" {
			t.Errorf("figure %d has no name", f)
		}
	}
}
