package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// DefaultFile is read if it exists and no other is named.
const DefaultFile = "/etc/basaltmq/basaltmq.toml"

// CommandLine is a parsed command line.
type CommandLine struct {
	// File is what -c names; empty: none is named.
	File string
	// What to do instead of running.
	Help, Version, PrintDefaultConfig, Check bool

	given []setting
}

// setting is one flag that was given.
type setting struct {
	flag string // "--amqp-port"
	key  *Key
	text string
	// wide ones set several keys at once, and stand behind those for one.
	wide bool
}

// wideFlags set several keys, or one key to a fixed value.
var wideFlags = []struct {
	names          []string
	argument, help string
	keys           []string
	text           string // of a flag without argument
}{
	{[]string{"b", "bind"}, "ADDR", "address of the AMQP and HTTP listeners", []string{"amqp.bind", "http.bind"}, ""},
	{[]string{"d", "debug"}, "", "the same as --log-level debug", []string{"log.level"}, "debug"},
}

// flagValue collects what a flag is given.
type flagValue struct {
	add    func(text string)
	toggle bool
}

func (v flagValue) String() string        { return "" }
func (v flagValue) Set(text string) error { v.add(text); return nil }
func (v flagValue) IsBoolFlag() bool      { return v.toggle }

// dashes writes a flag's name the usual way.
func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// ParseArgs parses a command line without the program's name. Values are checked
// by Load.
func ParseArgs(args []string) (*CommandLine, error) {
	cl := &CommandLine{}
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for i := range keys {
		k := &keys[i]
		for _, name := range k.Flags {
			fs.Var(flagValue{func(text string) { cl.given = append(cl.given, setting{dashes(name), k, text, false}) }, k.isToggle()}, name, "")
		}
	}
	for _, w := range wideFlags {
		for _, name := range w.names {
			fs.Var(flagValue{func(text string) {
				if w.text != "" {
					text = w.text
				}
				for _, key := range w.keys {
					cl.given = append(cl.given, setting{dashes(name), find(key), text, true})
				}
			}, w.argument == ""}, name, "")
		}
	}
	for name, p := range map[string]*bool{
		"h": &cl.Help, "help": &cl.Help, "v": &cl.Version, "version": &cl.Version,
		"print-default-config": &cl.PrintDefaultConfig, "check": &cl.Check,
	} {
		fs.BoolVar(p, name, false, "")
	}
	for _, name := range []string{"c", "config"} {
		fs.StringVar(&cl.File, name, "", "")
	}
	if err := fs.Parse(args); err != nil {
		text := strings.TrimPrefix(err.Error(), "flag ")
		if name, ok := strings.CutPrefix(text, "provided but not defined: -"); ok {
			return nil, fmt.Errorf("unknown flag %s%s", dashes(strings.TrimLeft(name, "-")), meantFlag(strings.TrimLeft(name, "-")))
		}
		return nil, errors.New(text)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return cl, nil
}

// meantFlag suggests what an unknown flag may stand for.
func meantFlag(name string) string {
	names := []string{"config", "check", "print-default-config", "help", "version"}
	for i := range keys {
		names = append(names, keys[i].Flags...)
		k := &keys[i]
		if len(k.Flags) == 0 && (flagged(k.Name) == flagged(name) || flagged(k.Leaf()) == flagged(name)) {
			return fmt.Sprintf(": the key %s has no flag; set it in the file, or %s in the environment", k.Name, k.Env())
		}
	}
	for _, w := range wideFlags {
		names = append(names, w.names...)
	}
	if s := nearest(name, names); len(s) > 1 {
		return ": did you mean --" + s + "?"
	}
	return ""
}

var flagged = strings.NewReplacer(".", "-", "_", "-").Replace
