package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/inspect"
)

func storeVerify() command {
	return command{
		path: "store verify", operands: "DIR",
		summary: "check every file of a stopped broker's data directory",
		details: `
Checks the checksum and structure of every batch of every segment, offsets,
indexes and trailers against the data, settled records, the journal's groups
and definitions, and lists files that are not the broker's or that it set
aside. Records that only the journal has are counted too. Bodies of large
messages are compared with the messages. It only reads. The
broker must be stopped; while the check runs, it cannot be started.

Findings have a level:
  damage      bytes are not what was written, or contradict each other
  unreadable  no permission: not checked
  unfinished  what a crash or power cut may leave; the next start mends it
  note        files that the broker ignores or sets aside

Exit status: 0 no damage; 1 damage, or something unfinished although the broker
stopped in good order (--strict: something unfinished in any case); 2 the directory is in use, or it or some file could not be read.`,
		prepare: func(f *flagSet) func(context.Context, console, []string) error {
			asJSON := f.toggle("", "json", "print the result as one JSON object")
			strict := f.toggle("", "strict", "exit with 1 also for what a crash may leave")
			quiet := f.toggle("q", "quiet", "no progress line")
			workers := f.number("", "workers", "N", 0, "files checked at the same time; 0: one per core")
			return func(ctx context.Context, out console, operands []string) error {
				if *workers > 1024 {
					return usagef("--workers %d is not between 0 and 1024", *workers)
				}
				r, err := verifyDir(ctx, operands[0], int(*workers), !*quiet && isTerminal(out.stderr), out.stderr)
				if err != nil {
					return err
				}
				if *asJSON {
					err = json.NewEncoder(out.stdout).Encode(r)
				} else {
					r.write(out.stdout)
				}
				if err != nil {
					return err
				}
				return r.verdict(*strict)
			}
		},
	}
}

// verifyReport is the report on a whole data directory.
type verifyReport struct {
	Directory string `json:"directory"`
	Damage    int    `json:"damage"`
	Unread    int    `json:"unreadable"`
	Unfinish  int    `json:"unfinished"`
	Notes     int    `json:"notes"`
	Queues    int    `json:"queues"`
	*inspect.Report
	Definitions int     `json:"definition_records"`
	Seconds     float64 `json:"seconds"`

	names map[uint64]queueName
}

func verifyDir(ctx context.Context, dir string, workers int, progress bool, stderr io.Writer) (*verifyReport, error) {
	d, err := openDataDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	began := time.Now()
	p := new(inspect.Progress)
	if progress {
		stop := showProgress(stderr, p)
		defer stop()
	}
	defs, err := d.readDefinitions()
	if err != nil {
		return nil, err
	}
	found, err := inspect.Verify(ctx, d.files, inspect.Options{
		Workers: workers, Progress: p, Meta: defs.journaled, External: broker.IsExternal,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", dir, strings.TrimPrefix(err.Error(), "inspect: "))
	}
	for _, f := range append(defs.findings, defs.unclaimed(found.LogIDs)...) {
		found.Add(f)
	}
	found.Bytes += defs.bytes
	if found.Findings == nil {
		found.Findings = []inspect.Finding{} // an empty list in JSON
	}
	return &verifyReport{
		Directory: dir, Report: found, names: defs.logs, Queues: len(defs.queues), Definitions: defs.records,
		Damage: found.Count(inspect.Damage), Unread: found.Count(inspect.Unreadable),
		Unfinish: found.Count(inspect.Unfinished), Notes: found.Count(inspect.Note),
		Seconds: time.Since(began).Seconds(),
	}, nil
}

// verdict turns the report into the command's result.
func (r *verifyReport) verdict(strict bool) error {
	switch {
	case r.Damage > 0, (strict || r.CleanStop) && r.Unfinish > 0:
		return errProblems
	case r.Unread > 0:
		return fmt.Errorf("%d files could not be read: run as the broker's user or as root", r.Unread)
	}
	return nil
}

func (r *verifyReport) write(w io.Writer) {
	for _, f := range r.Findings {
		writeFinding(w, f, r.names)
	}
	if r.NotReported > 0 {
		fmt.Fprintf(w, "%-10s  %d more places in the files above\n", inspect.Damage, r.NotReported)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
	}
	stop := "not in good order, or a copy of a running broker's files"
	if r.CleanStop {
		stop = "in good order"
	}
	fmt.Fprintf(w, "stopped    %s\n", stop)
	fmt.Fprintf(w, "queues     %d (%d definition records)\n", r.Queues, r.Definitions)
	fmt.Fprintf(w, "logs       %d\n", r.Logs)
	fmt.Fprintf(w, "segments   %d (%d sealed)\n", r.Segments, r.Sealed)
	fmt.Fprintf(w, "journal    %d groups, %d entries; %d records are in no segment\n", r.Journal.Groups, r.Journal.Entries, r.Journal.Records)
	fmt.Fprintf(w, "batches    %d\n", r.Batches)
	if r.Holes > 0 {
		fmt.Fprintf(w, "holes      %d (%s of settled batches given back)\n", r.Holes, byteCount(int64(r.HoleBytes)))
	}
	fmt.Fprintf(w, "records    %d (%d unsettled)\n", r.Records, r.Unsettled)
	fmt.Fprintf(w, "bodies     %d in files of their own\n", r.Bodies)
	fmt.Fprintf(w, "bytes      %d (%s) in %.1f s\n", r.Bytes, byteCount(r.Bytes), r.Seconds)
	result := "sound"
	if r.Damage+r.Unread+r.Unfinish > 0 {
		result = fmt.Sprintf("%d damaged, %d unreadable, %d unfinished", r.Damage, r.Unread, r.Unfinish)
	}
	if r.Notes > 0 {
		result += fmt.Sprintf("; %d notes", r.Notes)
	}
	fmt.Fprintf(w, "result     %s\n", result)
}

// writeFinding writes one finding, with the name of the queue it is about.
func writeFinding(w io.Writer, f inspect.Finding, names map[uint64]queueName) {
	fmt.Fprintf(w, "%-10s  %s", f.Level, printable(f.File))
	if f.Pos != inspect.WholeFile {
		fmt.Fprintf(w, " at byte %d", f.Pos)
		if f.Bytes > 0 {
			fmt.Fprintf(w, ", %d bytes", f.Bytes)
		}
	}
	if id, ok := logOf(f.File); ok {
		if q, ok := names[id]; ok {
			fmt.Fprintf(w, " (%s)", q)
		}
	}
	fmt.Fprintf(w, ": %s\n", f.Text)
}

// logOf returns the id of the log that a file belongs to.
func logOf(file string) (id uint64, ok bool) {
	for dir := file; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if id, err := strconv.ParseUint(path.Base(dir), 16, 64); err == nil && (inspect.LogDir(id) == dir || inspect.BodyDir(id) == dir) {
			return id, true
		}
	}
	return 0, false
}

// printable is a name that cannot confuse a terminal.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
