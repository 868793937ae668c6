package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// flagSet is the standard flag package with options allowed after operands,
// and help that tells an option's letter and name on one line.
type flagSet struct {
	set   *flag.FlagSet
	lines []flagLine
}

type flagLine struct {
	letter, name, argument, usage string
	choices                       []string // nil: anything
}

func newFlagSet() *flagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return &flagSet{set: set}
}

// each declares an option under its name and, if it has one, its letter.
func (f *flagSet) each(letter, name, argument, usage string, declare func(name string)) {
	declare(name)
	if letter != "" {
		declare(letter)
	}
	f.lines = append(f.lines, flagLine{letter: letter, name: name, argument: argument, usage: usage})
}

func (f *flagSet) toggle(letter, name, usage string) *bool {
	p := new(bool)
	f.each(letter, name, "", usage, func(n string) { f.set.BoolVar(p, n, false, "") })
	return p
}

func (f *flagSet) text(letter, name, argument, value, usage string) *string {
	p := new(string)
	f.each(letter, name, argument, usage, func(n string) { f.set.StringVar(p, n, value, "") })
	return p
}

// choice is a text that is one of several; the command checks that.
func (f *flagSet) choice(letter, name, value string, choices ...string) *string {
	p := f.text(letter, name, strings.ToUpper(name), value, strings.Join(choices[:len(choices)-1], ", ")+" or "+choices[len(choices)-1])
	f.lines[len(f.lines)-1].choices = choices
	return p
}

// alias gives an option other names, which help does not tell of.
func (f *flagSet) alias(name string, others ...string) {
	declared := f.set.Lookup(name)
	for _, other := range others {
		f.set.Var(declared.Value, other, "")
	}
}

func (f *flagSet) number(letter, name, argument string, value uint64, usage string) *uint64 {
	p := new(uint64)
	f.each(letter, name, argument, usage, func(n string) { f.set.Uint64Var(p, n, value, "") })
	return p
}

// parse returns the operands. "--" ends the options.
func (f *flagSet) parse(arguments []string) (operands []string, err error) {
	var after []string
	if i := slices.Index(arguments, "--"); i >= 0 {
		arguments, after = arguments[:i], arguments[i+1:]
	}
	for {
		if err := f.set.Parse(arguments); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, errHelp
			}
			return nil, usagef("%s", explainFlag(err.Error()))
		}
		arguments = f.set.Args()
		if len(arguments) == 0 {
			return append(operands, after...), nil
		}
		operands = append(operands, arguments[0])
		arguments = arguments[1:]
	}
}

// explainFlag words what the flag package says with options as they are written.
func explainFlag(text string) string {
	for _, words := range [][3]string{
		{"flag provided but not defined: -", "there is no option ", ""}, {"flag needs an argument: -", "option ", " needs a value behind it"},
	} {
		if name, ok := strings.CutPrefix(text, words[0]); ok {
			if len(name) > 1 {
				name = "-" + name
			}
			return words[1] + "-" + name + words[2]
		}
	}
	return strings.ReplaceAll(text, "parse error", "not understood")
}

// writeHelp lists the options with their defaults.
func (f *flagSet) writeHelp(w io.Writer) {
	for _, line := range f.lines {
		option := "    --" + line.name
		if line.letter != "" {
			option = "-" + line.letter + ", --" + line.name
		}
		if line.argument != "" {
			option += " " + line.argument
		}
		usage := line.usage
		if value := f.set.Lookup(line.name).DefValue; line.argument != "" && value != "" {
			usage += " (" + value + ")"
		}
		fmt.Fprintf(w, "  %-28s %s\n", option, usage)
	}
	fmt.Fprintf(w, "  %-28s %s\n", "-h, --help", "print this text")
}
