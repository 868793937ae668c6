package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/perf/stats"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// Runner measures the features of one broker.
type Runner struct {
	Tool       suite.Tool
	Target     scenario.Target // its address and what is known of it
	URI        string          // with the password
	LimitedURI string
	Scale      Scale
	Progress   io.Writer // nil: quiet

	only   map[string]bool // nil: all
	ctx    context.Context
	result *results.Features
}

// repeated is what the second plain row is called.
const repeated = "plain-after"

// Run measures the features one after the other. What can't be measured is
// named in the result; only a broker that can't be reached is an error.
func (r *Runner) Run(ctx context.Context) (*results.Features, error) {
	r.ctx = ctx
	r.result = &results.Features{Head: results.Head{Scenario: "features"}, Options: r.load()}
	if err := r.Target.Control(&r.result.Versions, r.remove); err != nil {
		return nil, err
	}
	began := time.Now()
	seen := map[string]bool{}
	for _, f := range list() {
		if ctx.Err() != nil {
			break
		}
		name := f.name
		if seen[name] {
			name = repeated
		}
		seen[name] = true
		if r.only != nil && !r.only[f.name] {
			continue
		}
		rows, err := r.feature(f)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.result.LeftOut = append(r.result.LeftOut, results.LeftOut{Figure: name, Reason: err.Error()})
			r.say(began, "%s: left out: %v", name, err)
		}
		for _, row := range rows {
			if row.Name == "" {
				row.Name = name
			}
			row.Load, row.Base = f.load, f.base
			r.result.Rows = append(r.result.Rows, row)
			r.say(began, "%s: %s %s/s", row.Name, results.HumanCount(uint64(row.PerSecond)), row.Unit)
		}
	}
	r.compare()
	r.result.Interrupted = ctx.Err() != nil
	r.result.Environment = scenario.ReadEnvironment(r.Target.Record)
	return r.result, nil
}

func (r *Runner) say(began time.Time, format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "%4.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// feature measures one, between two removals of what it needs.
func (r *Runner) feature(f feature) (rows []*results.FeatureRow, err error) {
	if f.limited && r.LimitedURI == "" {
		return nil, errors.New("needs a user whose permissions are patterns (--limited-uri)")
	}
	if err := r.Target.Control(nil, r.remove); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Target.Control(nil, r.remove)) }()
	if f.prepare != nil {
		if err := r.Target.Control(nil, func(s *session.Session) error { return f.prepare(r, s) }); err != nil {
			return nil, err
		}
	}
	if f.own != nil {
		row, err := f.own(r)
		if err != nil {
			return nil, err
		}
		row.Unit = f.unit
		return []*results.FeatureRow{row}, nil
	}
	if f.fill != "" {
		if _, err := r.child("throughput "+f.fill, false); err != nil {
			return nil, err
		}
	}
	relayBefore := r.relay(f)
	raw, err := r.child(f.run+r.span(f.run), f.limited)
	if err != nil {
		return nil, err
	}
	look := f.look
	if look == nil {
		look = throughputRow
	}
	if rows, err = look(r, raw); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Unit = f.unit; row.PerSecond <= 0 {
			return nil, errors.New("nothing arrived in the time measured")
		}
	}
	if after := r.relay(f); relayBefore > 0 && after > 0 {
		for _, row := range rows {
			row.Relay = &results.RelayFraction{Before: relayBefore, After: after, Fraction: row.PerSecond / stats.Mean(relayBefore, after)}
		}
	}
	return rows, nil
}

// span are the arguments that say how long a load runs. Loads of a number of
// messages end by themselves.
func (r *Runner) span(run string) string {
	bounded := strings.Contains(run, " -D ")
	text := ""
	if !bounded {
		text = " -z " + seconds(r.Scale.Time) + " --warmup " + seconds(r.Scale.Warmup)
	}
	if strings.HasPrefix(run, "throughput ") {
		text += " --calibrate " + seconds(r.Scale.Calibrate)
	}
	return text
}

// relay measures the relay beside a load that does not do so itself and moves
// messages; 0: not measured.
func (r *Runner) relay(f feature) float64 {
	if !strings.HasPrefix(f.run, "fanout ") {
		return 0
	}
	raw, err := r.Tool.Run(r.ctx, "calibrate", "-s", strconv.Itoa(bodySize), "-z", seconds(r.Scale.Calibrate))
	var calibrated results.Calibrate
	if err != nil || json.Unmarshal(raw, &calibrated) != nil {
		return 0
	}
	return calibrated.MessagesPerSecond
}

// child runs a scenario with the names put in. Arguments are split at blanks:
// neither names nor JSON have any.
func (r *Runner) child(line string, limited bool) ([]byte, error) {
	names := strings.NewReplacer("{queue}", r.queue(), "{exchange}", r.exchange(), "{prefix}", r.Scale.Prefix,
		"{stream}", strconv.Itoa(r.Scale.Stream), "{stream10}", strconv.Itoa(10*r.Scale.Stream), "{delayed}", strconv.Itoa(r.Scale.Delayed))
	uri := r.URI
	if limited {
		uri = r.LimitedURI
	}
	arguments := append(strings.Fields(names.Replace(line)), "--uri", uri)
	if strings.HasPrefix(line, "throughput ") {
		arguments = append(arguments, "-s", strconv.Itoa(bodySize))
	}
	if r.Target.BrokerPID > 0 {
		arguments = append(arguments, "--broker-pid", strconv.Itoa(r.Target.BrokerPID))
	}
	return r.Tool.Run(r.ctx, arguments...)
}

func seconds(span time.Duration) string { return strconv.FormatFloat(span.Seconds(), 'f', -1, 64) }

// throughputRow takes the figures of a throughput run: what was consumed, or
// published where nobody consumes.
func throughputRow(_ *Runner, raw []byte) ([]*results.FeatureRow, error) {
	var t results.Throughput
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	row := &results.FeatureRow{
		Seconds: t.Seconds, PerSecond: t.ConsumedPerSecond, PublishedPerSecond: t.PublishedPerSecond,
		Relay: t.Relay, BrokerCPU: t.BrokerCPU, RSS: t.RSS, Bottleneck: t.Bottleneck,
	}
	if t.Options != nil && t.Options.Consumers == 0 {
		row.PerSecond = t.PublishedPerSecond
	}
	return []*results.FeatureRow{row}, nil
}

func fanoutRows(_ *Runner, raw []byte) (rows []*results.FeatureRow, err error) {
	var fanout results.Fanout
	if err := json.Unmarshal(raw, &fanout); err != nil {
		return nil, err
	}
	for _, row := range fanout.Rows {
		rows = append(rows, &results.FeatureRow{
			Name: fmt.Sprintf("fanout-%d", row.Queues), Seconds: row.Seconds, PerSecond: row.DeliveredPerSecond,
			PublishedPerSecond: row.PublishedPerSecond, BrokerCPU: row.BrokerCPU, RSS: row.RSS, Bottleneck: row.Bottleneck,
		})
	}
	return rows, nil
}

func bindingRows(_ *Runner, raw []byte) (rows []*results.FeatureRow, err error) {
	var churn results.Churn
	if err := json.Unmarshal(raw, &churn); err != nil {
		return nil, err
	}
	for _, row := range churn.Rows {
		rows = append(rows, &results.FeatureRow{
			Name: "bindings-" + row.Kind, Seconds: row.Seconds, PerSecond: row.PerSecond, BrokerCPU: row.BrokerCPU, RSS: row.RSS, Bottleneck: row.Bottleneck,
		})
	}
	return rows, nil
}

// compare sets the rows against their bases.
func (r *Runner) compare() {
	rates := map[string][]float64{}
	for _, row := range r.result.Rows {
		name := row.Name
		if name == repeated {
			name = "plain"
		}
		rates[name] = append(rates[name], row.PerSecond)
	}
	for _, row := range r.result.Rows {
		base := rates[row.Base]
		if row.Base == "" || len(base) == 0 {
			row.Base = ""
			continue
		}
		fraction := row.PerSecond / stats.Mean(base...)
		row.OfBase = &fraction
	}
}
