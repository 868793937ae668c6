package perf

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// usageError is a mistake on the command line: one line, exit status 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// errHelp says that the user asked for help and got it.
var errHelp = errors.New("perf: help requested")

// flagSet is the standard flag package with the manners of getopt: one-letter
// and long names for the same option, "-s16", "-qp", "--size=16", and one-line
// errors that name the option as the user wrote it.
type flagSet struct {
	set     *flag.FlagSet
	names   []flagName
	operand *string // where the one argument that is no option goes; nil: none allowed
}

// flagName is one line of the help text.
type flagName struct {
	letter, long, argument, usage string
	boolean                       bool
}

func newFlagSet(scenario string) *flagSet {
	set := flag.NewFlagSet(scenario, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return &flagSet{set: set}
}

func (f *flagSet) add(value flag.Value, letter, long, argument, usage string) {
	f.set.Var(value, long, usage)
	if letter != "" {
		f.set.Var(value, letter, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, argument: argument, usage: usage})
}

func (f *flagSet) count(target *int, letter, long, argument, usage string) {
	f.add(countFlag{target}, letter, long, argument, usage)
}

func (f *flagSet) text(target *string, letter, long, argument, usage string) {
	f.set.StringVar(target, long, *target, usage)
	if letter != "" {
		f.set.StringVar(target, letter, *target, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, argument: argument, usage: usage})
}

func (f *flagSet) toggle(target *bool, letter, long, usage string) {
	f.set.BoolVar(target, long, *target, usage)
	if letter != "" {
		f.set.BoolVar(target, letter, *target, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, usage: usage, boolean: true})
}

// given reports whether the option was on the command line, by either name.
func (f *flagSet) given(long string) bool {
	letter := ""
	for _, name := range f.names {
		if name.long == long {
			letter = name.letter
		}
	}
	found := false
	f.set.Visit(func(option *flag.Flag) {
		found = found || option.Name == long || (letter != "" && option.Name == letter)
	})
	return found
}

// parse reads the arguments; all of them but the operand must be options.
func (f *flagSet) parse(arguments []string) error {
	normal, err := f.normalise(arguments)
	if err != nil {
		return err
	}
	if err := f.set.Parse(normal); err != nil {
		text := strings.ReplaceAll(err.Error(), "parse error", "not understood")
		return usagef("%s", strings.TrimPrefix(text, "flag: "))
	}
	if f.set.NArg() > 0 {
		return usagef("unexpected argument %q", f.set.Arg(0))
	}
	return nil
}

// normalise turns every argument into "--name=value" or "--name".
func (f *flagSet) normalise(arguments []string) ([]string, error) {
	var out []string
	for i := 0; i < len(arguments); i++ {
		argument := arguments[i]
		switch {
		case argument == "-h" || argument == "--help":
			return nil, errHelp
		case len(argument) < 2 || argument[0] != '-' || argument == "--":
			if f.operand == nil || *f.operand != "" || argument == "--" {
				return nil, usagef("unexpected argument %q", argument)
			}
			*f.operand = argument
		case strings.HasPrefix(argument, "--"):
			name, value, attached := strings.Cut(argument[2:], "=")
			option, known := f.lookup(name, true)
			if !known {
				return nil, usagef("unknown option --%s", name)
			}
			if !attached && !option.boolean {
				if i++; i == len(arguments) {
					return nil, usagef("option --%s needs a value", name)
				}
				value, attached = arguments[i], true
			}
			out = append(out, joinFlag(name, value, attached))
		default:
			letters := argument[1:]
			for letters != "" {
				name := letters[:1]
				letters = letters[1:]
				option, known := f.lookup(name, false)
				if !known {
					return nil, usagef("unknown option -%s", name)
				}
				if option.boolean {
					out = append(out, joinFlag(name, "", false))
					continue
				}
				value := strings.TrimPrefix(letters, "=")
				if letters == "" {
					if i++; i == len(arguments) {
						return nil, usagef("option -%s needs a value", name)
					}
					value = arguments[i]
				}
				out = append(out, joinFlag(name, value, true))
				letters = ""
			}
		}
	}
	return out, nil
}

func (f *flagSet) lookup(name string, long bool) (flagName, bool) {
	for _, option := range f.names {
		if long && option.long == name || !long && option.letter == name && name != "" {
			return option, true
		}
	}
	return flagName{}, false
}

func joinFlag(name, value string, attached bool) string {
	if !attached {
		return "--" + name
	}
	return "--" + name + "=" + value
}

// writeHelp lists the options with their defaults.
func (f *flagSet) writeHelp(w io.Writer) {
	for _, name := range f.names {
		option := "    "
		if name.letter != "" {
			option = "-" + name.letter + ", "
		}
		option += "--" + name.long
		if name.argument != "" {
			option += " " + name.argument
		}
		usage := name.usage
		if known := f.set.Lookup(name.long); !name.boolean && known.DefValue != "" && known.DefValue != "0" && known.DefValue != "0s" {
			usage += fmt.Sprintf(" (default %s)", known.DefValue)
		}
		fmt.Fprintf(w, "  %-32s %s\n", option, usage)
	}
}
