package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// UsageError is a mistake on the command line: one line, exit status 2.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func Usagef(format string, args ...any) error {
	return &UsageError{Text: fmt.Sprintf(format, args...)}
}

// ErrHelp says that the user asked for help and got it.
var ErrHelp = errors.New("perf: help requested")

// FlagSet is the standard flag package with the manners of getopt: one-letter
// and long names for the same option, "-s16", "-qp", "--size=16", and one-line
// errors that name the option as the user wrote it.
type FlagSet struct {
	set     *flag.FlagSet
	names   []flagName
	Operand *string // where the one argument that is no option goes; nil: none allowed

	// Operands is where several such arguments go instead.
	Operands *[]string
}

// flagName is one line of the help text.
type flagName struct {
	letter, long, argument, usage string
	boolean                       bool
}

func NewFlagSet(scenario string) *FlagSet {
	set := flag.NewFlagSet(scenario, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return &FlagSet{set: set}
}

func (f *FlagSet) add(value flag.Value, letter, long, argument, usage string) {
	f.set.Var(value, long, usage)
	if letter != "" {
		f.set.Var(value, letter, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, argument: argument, usage: usage})
}

func (f *FlagSet) Count(target *int, letter, long, argument, usage string) {
	f.add(countFlag{target}, letter, long, argument, usage)
}

// Quantity declares an option that takes a number with units.
func (f *FlagSet) Quantity(target *uint64, letter, long, argument, usage string) {
	f.add(quantityFlag{target}, letter, long, argument, usage)
}

// Duration declares an option that takes a duration.
func (f *FlagSet) Duration(target *time.Duration, letter, long, argument, usage string) {
	f.add(durationFlag{target}, letter, long, argument, usage)
}

func (f *FlagSet) Text(target *string, letter, long, argument, usage string) {
	f.set.StringVar(target, long, *target, usage)
	if letter != "" {
		f.set.StringVar(target, letter, *target, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, argument: argument, usage: usage})
}

func (f *FlagSet) Toggle(target *bool, letter, long, usage string) {
	f.set.BoolVar(target, long, *target, usage)
	if letter != "" {
		f.set.BoolVar(target, letter, *target, usage)
	}
	f.names = append(f.names, flagName{letter: letter, long: long, usage: usage, boolean: true})
}

// Given reports whether the option was on the command line, by either name.
func (f *FlagSet) Given(long string) bool {
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

// Value is what an option is set to, as text; empty when there is no such.
func (f *FlagSet) Value(long string) string {
	if option := f.set.Lookup(long); option != nil {
		return option.Value.String()
	}
	return ""
}

// Parse reads the arguments; all of them but the operand must be options.
func (f *FlagSet) Parse(arguments []string) error {
	normal, err := f.normalise(arguments)
	if err != nil {
		return err
	}
	if err := f.set.Parse(normal); err != nil {
		text := strings.ReplaceAll(err.Error(), "parse error", "not understood")
		return Usagef("%s", strings.TrimPrefix(text, "flag: "))
	}
	if f.set.NArg() > 0 {
		return Usagef("unexpected argument %q", f.set.Arg(0))
	}
	return nil
}

// normalise turns every argument into "--name=value" or "--name".
func (f *FlagSet) normalise(arguments []string) ([]string, error) {
	var out []string
	for i := 0; i < len(arguments); i++ {
		argument := arguments[i]
		switch {
		case argument == "-h" || argument == "--help":
			return nil, ErrHelp
		case f.Operands != nil && argument != "" && argument[0] != '-':
			*f.Operands = append(*f.Operands, argument)
		case len(argument) < 2 || argument[0] != '-' || argument == "--":
			if f.Operand == nil || *f.Operand != "" || argument == "--" {
				return nil, Usagef("unexpected argument %q", argument)
			}
			*f.Operand = argument
		case strings.HasPrefix(argument, "--"):
			name, value, attached := strings.Cut(argument[2:], "=")
			option, known := f.lookup(name, true)
			if !known {
				return nil, Usagef("unknown option --%s", name)
			}
			if !attached && !option.boolean {
				if i++; i == len(arguments) {
					return nil, Usagef("option --%s needs a value", name)
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
					return nil, Usagef("unknown option -%s", name)
				}
				if option.boolean {
					out = append(out, joinFlag(name, "", false))
					continue
				}
				value := strings.TrimPrefix(letters, "=")
				if letters == "" {
					if i++; i == len(arguments) {
						return nil, Usagef("option -%s needs a value", name)
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

func (f *FlagSet) lookup(name string, long bool) (flagName, bool) {
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

// WriteHelp lists the options with their defaults.
func (f *FlagSet) WriteHelp(w io.Writer) {
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
