package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/inspect"
)

func storeDump() command {
	return command{
		path: "store dump", operands: "DIR QUEUE",
		summary: "print the messages of a queue from a stopped broker's data directory",
		details: `
QUEUE is the name of a durable queue, or log:ID for a log by its number
(decimal, 0x and hexadecimal digits, or the 16 digits of its directory's name).
Messages that were settled (acknowledged, expired, purged) are left out unless
--settled is given. Those that only the journal has are in their place. Only what is in the files can be shown: damaged places are
passed over and reported on stderr. "--" ends the options, for a queue whose
name begins with "-".

Exit status: 0 all was shown; 1 there are damaged or unreadable places, passed
over; 2 the directory is in use, is none of the broker's or cannot be read, or
there is no such queue.`,
		prepare: func(f *flagSet) func(context.Context, console, []string) error {
			o := dumpOptions{
				vhost:     f.text("p", "vhost", "NAME", "/", "vhost of the queue"),
				from:      f.number("", "from", "OFFSET", 0, "begin at this offset"),
				count:     f.number("n", "count", "N", 0, "stop after N messages; 0: all"),
				settled:   f.toggle("", "settled", "also show settled messages that are still in the files"),
				body:      f.text("", "body", "FORM", "text", "how bodies are shown: text, hex, base64 or none"),
				bodyBytes: f.number("", "body-bytes", "N", 256, "show that much of each body; 0: all of it"),
				asJSON:    f.toggle("", "json", "one JSON object per line and message"),
			}
			return o.run
		},
	}
}

// dumpOptions are the flags of store dump.
type dumpOptions struct {
	vhost, body            *string
	from, count, bodyBytes *uint64
	settled, asJSON        *bool
}

func (o dumpOptions) run(ctx context.Context, out console, operands []string) error {
	if !slices.Contains([]string{"text", "hex", "base64", "none"}, *o.body) {
		return usagef("--body %q is none of text, hex, base64, none", *o.body)
	}
	d, err := openDataDir(operands[0])
	if err != nil {
		return err
	}
	defer d.close()
	defs, err := d.readDefinitions()
	if err != nil {
		return err
	}
	j, err := inspect.ReadJournal(ctx, d.files)
	if err == nil {
		err = j.Meta(ctx, defs.journaled)
	}
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "inspect: "))
	}
	shown, damaged := uint64(0), false
	finding := func(f inspect.Finding) {
		damaged = damaged || f.Level == inspect.Damage || f.Level == inspect.Unreadable
		writeFinding(out.stderr, f, defs.logs)
	}
	for _, f := range defs.findings {
		finding(f)
	}
	id, err := defs.lookup(queueName{vhost: *o.vhost, name: operands[1]})
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out.stdout)
	form := bodyForm{form: *o.body, bytesMax: *o.bodyBytes}
	err = inspect.Records(ctx, d.files, id, inspect.RecordOptions{
		From: *o.from, Settled: *o.settled, Journal: j,
		Finding: finding,
		Visit: func(r *inspect.Record) error {
			shown++
			m := message{Record: r}
			if err := m.loadBody(d.files, id, form); err != nil {
				finding(inspect.Finding{Level: inspect.Damage, File: m.bodyFile, Pos: inspect.WholeFile,
					Text: fmt.Sprintf("offset %d: %s", r.Offset, strings.TrimPrefix(err.Error(), "inspect: "))})
			}
			if err := form.record(w, &m, *o.asJSON); err != nil {
				return err
			}
			if shown == *o.count {
				return inspect.ErrStop
			}
			return nil
		},
	})
	if errors.Is(err, inspect.ErrNoLog) && !strings.HasPrefix(operands[1], logPrefix) {
		err = nil // a queue that was empty since it was declared
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "inspect: "))
	}
	fmt.Fprintf(out.stderr, "%d messages shown\n", shown)
	if damaged {
		return errProblems
	}
	return nil
}

// logPrefix begins the name of a log in place of a queue.
const logPrefix = "log:"

// queuesNamedMax bounds the list in an error text.
const queuesNamedMax = 10

// lookup returns the log of a queue, or of log:ID. A queue of that very name
// comes first.
func (defs *definitions) lookup(q queueName) (id uint64, err error) {
	if id, ok := defs.queues[q]; ok {
		return id, nil
	}
	if number, ok := strings.CutPrefix(q.name, logPrefix); ok {
		if len(number) == 16 {
			id, err = strconv.ParseUint(number, 16, 64)
		} else {
			id, err = strconv.ParseUint(number, 0, 64)
		}
		if err != nil {
			return 0, usagef("%q is not log: and a number, such as log:7, log:0x1f or log:000000000000001f", q.name)
		}
		return id, nil
	}
	var same []string // vhosts that have a queue of that name
	var others []string
	for other := range maps.Keys(defs.queues) {
		if other.name == q.name {
			same = append(same, strconv.Quote(other.vhost))
		}
		if other.vhost == q.vhost {
			others = append(others, strconv.Quote(other.name))
		}
	}
	slices.Sort(same)
	slices.Sort(others)
	switch {
	case defs.missing:
		return 0, fmt.Errorf("there are no definitions, neither in their file nor in the journal, so names of queues are unknown: use log:ID")
	case len(same) > 0:
		return 0, fmt.Errorf("no durable %s; vhost %s has one: use --vhost", q, strings.Join(same, ", "))
	case len(others) == 0:
		return 0, fmt.Errorf("no durable %s: there is no durable queue in that vhost", q)
	}
	more := ""
	if n := len(others); n > queuesNamedMax {
		others, more = others[:queuesNamedMax], fmt.Sprintf(" and %d more", n-queuesNamedMax)
	}
	return 0, fmt.Errorf("no durable %s; there are %s%s", q, strings.Join(others, ", "), more)
}
