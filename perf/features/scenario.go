package features

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// prefixMax bounds what names start with.
const prefixMax = 200

// Scenario is the subcommand features.
func Scenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "features",
		Summary: "what features cost: topic and headers routing, limits, priorities, dead letters, …",
		Details: "Runs a load through each feature and reports its rate, by the rate of the same load\n" +
			"without it and by what the bare relay passes. A feature that the broker refuses is left\n" +
			"out with the reason. Queues and exchanges (--prefix) are deleted before and after. About\n" +
			"three minutes. Features:\n  " + strings.Join(wrapped(Names(), 76), "\n  "),
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			r := &Runner{Scale: DefaultScale()}
			var chosen string
			uri := ""
			flags.Text(&chosen, "", "features", "LIST", "only these")
			flags.Text(&r.LimitedURI, "", "limited-uri", "URI", "the same broker as a user whose permissions are patterns; without it their cost is left out")
			flags.Text(&r.Scale.Prefix, "u", "prefix", "TEXT", "what names start with; existing things of such names are deleted")
			flags.Duration(&r.Scale.Time, "z", "time", "SECONDS", "measure each feature for this long")
			flags.Duration(&r.Scale.Warmup, "", "warmup", "SECONDS", "run each this long before measuring")
			flags.Duration(&r.Scale.Calibrate, "", "calibrate", "SECONDS", "measure the relay for so long before and after each")
			flags.Count(&r.Scale.Delayed, "", "delayed", "N", "how many messages to delay")
			flags.Count(&r.Scale.Stream, "", "stream", "N", "how many messages each reader of the stream reads")
			r.Target.Declare(flags, "report the filesystem of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				uri = r.Target.URI // Finish takes the password out
				if err := r.Target.Finish(); err != nil {
					return err
				}
				if err := r.finish(chosen); err != nil {
					return err
				}
				r.URI = uri
				return run(ctx, r, out)
			}
		},
	}
}

// Scale says how much is measured.
type Scale struct {
	Prefix                  string
	Time, Warmup, Calibrate time.Duration
	Delayed, Stream         int // messages
	Bindings, Headers       int // of an exchange
}

// DefaultScale is that of recorded figures.
func DefaultScale() Scale {
	return Scale{
		Prefix: "perf-feature", Time: 2 * time.Second, Warmup: 500 * time.Millisecond, Calibrate: 300 * time.Millisecond,
		Delayed: 100000, Stream: 3000000, Bindings: 10000, Headers: 1000,
	}
}

func (r *Runner) finish(chosen string) error {
	var err error
	switch {
	case r.Scale.Prefix == "" || len(r.Scale.Prefix) > prefixMax || strings.ContainsAny(r.Scale.Prefix, "% "):
		return cli.Usagef("--prefix is 1 to %d bytes without %% and blanks", prefixMax)
	case r.Scale.Time <= 0 || r.Scale.Calibrate <= 0:
		return cli.Usagef("--time and --calibrate must be above 0")
	case r.Scale.Delayed < 1 || r.Scale.Stream < 1:
		return cli.Usagef("--delayed and --stream must be above 0")
	}
	if r.LimitedURI != "" {
		if _, err := session.ParseURI(r.LimitedURI); err != nil {
			return cli.Usagef("--limited-uri: %v", err)
		}
	}
	r.only, err = selectNames(chosen)
	return err
}

func run(ctx context.Context, r *Runner, out scenario.Console) error {
	if err := scenario.CheckWritable(r.Target.Output.JSONFile); err != nil {
		return err
	}
	child, err := suite.NewChild()
	if err != nil {
		return err
	}
	r.Tool = child
	if !r.Target.Output.Quiet {
		r.Progress = out.Stderr
	}
	result, err := r.Run(ctx)
	if err != nil {
		return err
	}
	if err := r.Target.Output.Write(out, result, func() { result.WriteText(out.Stdout) }); err != nil {
		return err
	}
	if len(result.Rows) == 0 {
		return fmt.Errorf("nothing could be measured")
	}
	return nil
}

func selectNames(list string) (map[string]bool, error) {
	if list == "" {
		return nil, nil
	}
	only := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); !strings.Contains(","+strings.Join(Names(), ",")+",", ","+name+",") {
			return nil, cli.Usagef("--features: there is no feature %q", name)
		}
		only[name] = true
	}
	return only, nil
}

// wrapped breaks a list of names into lines.
func wrapped(names []string, width int) (lines []string) {
	line := ""
	for _, name := range names {
		if line != "" && len(line)+2+len(name) > width {
			lines, line = append(lines, line+","), ""
		}
		if line != "" {
			line += ", "
		}
		line += name
	}
	return append(lines, line)
}

// load is what describes a run.
func (r *Runner) load() *results.FeaturesLoad {
	return &results.FeaturesLoad{URI: r.Target.Address.Redacted, Seconds: r.Scale.Time.Seconds(), Size: bodySize}
}
