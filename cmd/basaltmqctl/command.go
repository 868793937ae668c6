package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// Exit statuses. What 1 means in particular is part of each command's help.
const (
	exitOK       = 0
	exitProblems = 1 // the command did its work and found something wrong, or the broker refused
	exitUsage    = 2 // command line not understood, or nothing could be done
)

// program is how the tool calls itself in its messages.
const program = "basaltmqctl"

// command is one command of the tree.
type command struct {
	path     string // "store verify"
	operands string // "DIR [QUEUE] [COLUMN...]", as in the usage line; those in brackets are optional
	summary  string // one line of the overview
	details  string // paragraphs after the usage line
	remote   bool   // it talks to a running broker
	refused  bool   // it is there to say that it cannot be done, whatever follows it
	// prepare declares the options and returns what runs after parsing.
	prepare func(f *flagSet) func(ctx context.Context, out console, operands []string) error
}

// console is where a command writes: results to stdout, progress and
// everything else to stderr.
type console struct{ stdout, stderr io.Writer }

// usageError is a mistake on the command line.
type usageError struct {
	text string
	help string // command whose help tells more
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// errProblems ends a command that has reported what it found: status 1.
var errProblems = errors.New("problems were found")

// errHelp says that help was asked for.
var errHelp = errors.New("help requested")

// run executes a command line and returns the exit status. Errors are one
// line on stderr that names a remedy.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, arguments, console{stdout, stderr})
	var usage *usageError
	var refused *refusal
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errProblems):
		return exitProblems
	case errors.As(err, &refused):
		fmt.Fprintf(stderr, "%s: %v\n", program, refused)
		return exitProblems
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s (see %s)\n", program, usage.text, strings.TrimSpace(program+" help "+usage.help))
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", program)
	default:
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
	}
	return exitUsage
}

func dispatch(ctx context.Context, arguments []string, out console) error {
	if len(arguments) == 0 {
		return usagef("no command given")
	}
	switch arguments[0] {
	case "-h", "--help", "help":
		return help(arguments[1:], out.stdout)
	case "-v", "--version", "version", "--build-info":
		fmt.Fprintf(out.stdout, "%s %s %s %s/%s\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	case completeCommand:
		complete(ctx, arguments[1:], out.stdout)
		return nil
	}
	options, arguments, err := leading(arguments)
	if err != nil {
		return err
	}
	c, rest, err := find(arguments)
	rest = append(options, rest...)
	if err != nil {
		if group := members(arguments[:1]); len(group) > 0 && len(arguments) > 1 && isHelp(arguments[1]) {
			writeOverview(out.stdout, group)
			return nil
		}
		return err
	}
	f := newFlagSet()
	action := c.prepare(f)
	operands, err := f.parse(rest)
	if errors.Is(err, errHelp) {
		writeHelp(out.stdout, c)
		return nil
	}
	if c.refused {
		err = nil
	} else if err == nil {
		err = c.check(operands)
	}
	if err == nil {
		err = action(ctx, out, operands)
	}
	var usage *usageError
	if errors.As(err, &usage) && usage.help == "" {
		usage.help = c.path
	}
	return err
}

// sharedOptions are those that may stand before the command too, as rabbitmqctl
// takes them, and whether they have a value.
var sharedOptions = map[string]bool{
	"D": true, "data-dir": true, "socket": true, "control-unix-path": true, "U": true, "uri": true, "hostname": true, "host": true, "H": true,
	"P": true, "port": true, "scheme": true, "user": true, "password": true, "cacert": true, "n": true, "node": true,
	"f": true, "format": true, "p": true, "vhost": true, "q": false, "quiet": false, "s": false, "silent": false,
}

// leading takes the options before the command off.
func leading(arguments []string) (options, rest []string, err error) {
	n := 0
	for n < len(arguments) && strings.HasPrefix(arguments[n], "-") {
		name, _, joined := strings.Cut(strings.TrimLeft(arguments[n], "-"), "=")
		value, known := sharedOptions[name]
		if !known {
			return nil, nil, usagef("option %q is not one that may stand before the command", arguments[n])
		}
		if n++; value && !joined {
			n++
		}
	}
	if n >= len(arguments) && n > 0 {
		return nil, nil, usagef("no command given")
	}
	return append([]string(nil), arguments[:n]...), arguments[n:], nil
}

func isHelp(argument string) bool { return argument == "-h" || argument == "--help" }

// check compares the number of operands with what the command wants.
func (c command) check(operands []string) error {
	wanted := strings.Fields(c.operands)
	required, most := 0, len(wanted)
	for _, name := range wanted {
		if name[0] != '[' {
			required++
		}
		if strings.HasSuffix(name, "...]") {
			most = len(operands)
		}
	}
	switch {
	case len(operands) < required:
		return usagef("%s: %s is missing", c.path, wanted[len(operands)])
	case len(operands) > most:
		return usagef("%s: unexpected argument %q", c.path, operands[most])
	}
	return nil
}

// find returns the command whose path begins the arguments, and what follows.
func find(arguments []string) (command, []string, error) {
	for _, c := range commands() {
		if words := strings.Fields(c.path); hasPrefix(arguments, words) {
			return c, arguments[len(words):], nil
		}
	}
	group := members(arguments[:1])
	if len(group) == 0 {
		return command{}, nil, usagef("unknown command %q", arguments[0])
	}
	var names []string
	for _, c := range group {
		names = append(names, strings.TrimPrefix(c.path, arguments[0]+" "))
	}
	list := strings.Join(names, ", ")
	if len(arguments) == 1 {
		return command{}, nil, &usageError{text: fmt.Sprintf("%q needs one of: %s", arguments[0], list), help: arguments[0]}
	}
	return command{}, nil, &usageError{text: fmt.Sprintf("unknown command %q: %s has %s", arguments[0]+" "+arguments[1], arguments[0], list), help: arguments[0]}
}

// members are the commands below a group.
func members(words []string) (group []command) {
	for _, c := range commands() {
		if hasPrefix(strings.Fields(c.path), words) {
			group = append(group, c)
		}
	}
	return group
}

func hasPrefix(words, prefix []string) bool {
	if len(words) < len(prefix) {
		return false
	}
	for i, word := range prefix {
		if words[i] != word {
			return false
		}
	}
	return true
}

func help(words []string, w io.Writer) error {
	if len(words) == 0 {
		writeOverview(w, commands())
		return nil
	}
	group := members(words)
	if len(group) == 0 {
		return usagef("unknown command %q", strings.Join(words, " "))
	}
	i := slices.IndexFunc(group, func(c command) bool { return c.path == strings.Join(words, " ") })
	if i < 0 {
		writeOverview(w, group)
		return nil
	}
	writeHelp(w, group[i])
	for _, c := range group {
		if c.path != group[i].path {
			fmt.Fprintf(w, "\nSee also %s: %s.\n", c.path, c.summary)
		}
	}
	return nil
}

func writeOverview(w io.Writer, list []command) {
	fmt.Fprintf(w, "%s administers the BasaltMQ broker.\n\nUsage: %s COMMAND [options]\n\nCommands:\n", program, program)
	for _, c := range list {
		fmt.Fprintf(w, "  %-48s %s\n", strings.TrimSpace(c.path+" "+c.operands), c.summary)
	}
	fmt.Fprintf(w, `
  help [COMMAND]                                   explain a command and its options
  --help, --version

Exit status: %d all is well; %d problems were found, or the broker refused; %d the
command line was not understood, or nothing could be done (is the broker running?).
`, exitOK, exitProblems, exitUsage)
}

func writeHelp(w io.Writer, c command) {
	fmt.Fprintf(w, "Usage: %s %s %s [options]\n\n%s.\n", program, c.path, c.operands, strings.ToUpper(c.summary[:1])+c.summary[1:])
	if c.details != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.details))
	}
	f := newFlagSet()
	c.prepare(f)
	fmt.Fprintf(w, "\nOptions:\n")
	f.writeHelp(w)
}
