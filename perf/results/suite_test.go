package results

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

// testSuite is a suite with a target of every outcome.
func testSuite() *Suite {
	half, low := 0.5, 0.25
	return &Suite{
		Scenario: "suite", Seconds: 300, Options: &SuiteLoad{OwnBroker: true, Seconds: 3, Messages: 5000000, BrokerSeen: true},
		Sections:   []SuiteSection{{Name: "throughput", Seconds: 40}, {Name: "confirm", Seconds: 1, Error: "the broker went away"}},
		Yardsticks: []Yardstick{{Name: "relay", Unit: "messages/s", Before: 20000000, After: 22000000}, {Name: "append", Unit: "syncs/s", Before: 1000, After: 1200}},
		Figures: []Figure{
			{Name: "end-to-end-16B", Section: "throughput", Value: 10000000, Unit: "messages/s", Better: More, Yardstick: "relay", YardstickValue: 20000000, Fraction: &half},
			{Name: "publish-only-16B", Section: "throughput", Value: 5000000, Unit: "messages/s", Better: More, Yardstick: "relay", YardstickValue: 20000000, Fraction: &low},
			{Name: "drain-16B", Section: "throughput", Value: 5000000, Unit: "messages/s", Better: More},
			{Name: "confirm-1x10000", Section: "confirm", Value: 1500000, Unit: "messages/s", Better: More, Yardstick: "append of the same batches", Fraction: &half},
			{Name: "confirm-1000x10-of-one-queue", Section: "confirm", Value: 0.36, Better: More},
			{Name: "confirm-1000x10-of-one-queue-same-channels", Section: "confirm", Value: 0.9, Better: More},
			{Name: "latency-250k-p50", Section: "latency", Value: 88, Unit: "µs", Better: Less},
			{Name: "rss-idle", Section: "backlog", Value: 6 << 20, Unit: "bytes", Better: Less},
			{Name: "written-bulk", Section: "throughput", Value: 1.5, Better: Less},
		},
		LeftOut:     []LeftOut{{Figure: "rss-backlog", Reason: "needs the broker's process (--broker-pid)"}},
		Series:      []Series{{Name: "rss", Section: "backlog", Unit: "bytes", Seconds: []float64{0, 1, 2}, Values: []float64{5 << 20, 9 << 20, 7 << 20}}},
		Versions:    Versions{Tool: "1", BrokerProduct: "BasaltMQ", BrokerVersion: "1"},
		Environment: testEnvironment(),
	}
}

func TestSuiteText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	testSuite().WriteText(&out)
	golden(t, "suite.txt", out.Bytes())
}

func TestSuiteTable(t *testing.T) {
	t.Parallel()
	older := testSuite()
	older.Environment.Time = older.Environment.Time.AddDate(0, 0, -1)
	older.Figures = nil
	text, err := render(writeResults(t, map[string]any{"2026-05-01-0123-suite-run1.json": testSuite(), "2026-05-01-0123-suite-run2.json": older}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "suite.md", []byte(text))
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	verdicts := map[string]string{}
	suite, shown := testSuite(), map[string]string{}
	suite.Figures = append(suite.Figures, Figure{Name: "loops-1-many-64-cpu", Value: 60, Unit: "ns/message"})
	for _, outcome := range suite.Outcomes() {
		if outcome.Wanted() == "" {
			shown[outcome.Target.Figure] = outcome.MeasuredText() + outcome.Verdict()
		}
		verdicts[outcome.Target.What] = outcome.Verdict()
	}
	for what, want := range map[string]string{
		"end to end, 16 B, 1 producer, 1 consumer, auto-ack":          "reached",
		"publish only, 16 B, durable queue, kept":                     "not reached",
		"consume only from a backlog on disk, auto-ack":               "the yardstick was not measured",
		"the same, where the disk syncs 1,500 times a second":         "this machine's append is below 1,500",
		"RSS with the backlog queued (100 M messages for the record)": "not measured: needs the broker's process (--broker-pid)",
		"RSS idle": "reached", "RSS, 1,000 queues": "not measured", "bytes written per record byte, bulk": "not reached",
	} {
		if verdicts[what] != want {
			t.Errorf("%s: %q, want %q", what, verdicts[what], want)
		}
	}
	if want := map[string]string{"loops-1-many-64-cpu": "60 ns/message", "confirm-1000x10-of-one-queue-same-channels": "0.90"}; !maps.Equal(shown, want) {
		t.Errorf("shown without a target: %v, want %v", shown, want)
	}
}

func TestTargetsAreComplete(t *testing.T) {
	t.Parallel()
	for _, target := range Targets {
		if target.What == "" || target.AtLeast != nil && target.AtMost != nil || target.Fraction && target.AtMost != nil {
			t.Errorf("%+v", target)
		}
	}
}

func TestVerifyTrustsNobodyByItself(t *testing.T) {
	t.Parallel()
	if err := Verify("x.json"); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("%v", err)
	}
}
