package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// Scenario is the subcommand report.
func Scenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "report",
		Summary: "draw recorded results: one HTML file, or SVG plots: report DIR",
		Details: "Reads all *.json files of DIR, as table does, and writes one HTML file that needs\n" +
			"nothing else: the headline tables with their targets, features, throughput by size,\n" +
			"latency percentiles, memory over time. With --svg the plots go into files.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			directory, file, svgDirectory := "", "", ""
			title := "BasaltMQ: measured figures"
			flags.Operand = &directory
			flags.Text(&file, "o", "output", "FILE", "write the page here (report.html, unless --svg is given)")
			flags.Text(&svgDirectory, "", "svg", "DIR", "write each plot as an SVG file into this directory")
			flags.Text(&title, "", "title", "TEXT", "title of the page")
			return func(_ context.Context, out scenario.Console) error {
				if directory == "" {
					return cli.Usagef("report needs the directory of the results")
				}
				if file == "" && svgDirectory == "" {
					file = "report.html"
				}
				return write(directory, file, svgDirectory, title, out)
			}
		},
	}
}

func write(directory, file, svgDirectory, title string, out scenario.Console) error {
	recorded, err := results.Read(directory)
	if err != nil {
		return err
	}
	if file != "" {
		var page bytes.Buffer
		if err := WriteHTML(&page, title, recorded); err != nil {
			return err
		}
		if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
			return fmt.Errorf("can't write the report: %w", err)
		}
		fmt.Fprintln(out.Stdout, file)
	}
	if svgDirectory == "" {
		return nil
	}
	if err := os.MkdirAll(svgDirectory, 0o755); err != nil {
		return fmt.Errorf("can't write the plots: %w", err)
	}
	for _, chart := range Plots(recorded) {
		var drawn bytes.Buffer
		if err := chart.WriteSVG(&drawn); err != nil {
			return err
		}
		path := filepath.Join(svgDirectory, chart.Name+".svg")
		if err := os.WriteFile(path, drawn.Bytes(), 0o644); err != nil {
			return fmt.Errorf("can't write the plots: %w", err)
		}
		fmt.Fprintln(out.Stdout, path)
	}
	return nil
}
