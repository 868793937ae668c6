package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Completion. The scripts ask the program itself, which knows its commands from
// the same table as help and parsing do, and names of queues, users and so on from
// the broker, if it can be reached as the words say.

// completeCommand is what scripts call; help does not tell of it.
const completeCommand = "__complete"

var completionScripts = map[string]string{
	"bash": `# bash completion of basaltmqctl: source this file, or put it into
# /usr/share/bash-completion/completions/basaltmqctl
_basaltmqctl() {
	local word
	COMPREPLY=()
	while IFS= read -r word; do # names are data: quoted, never expanded
		COMPREPLY+=("$(printf %q "$word")")
	done < <(basaltmqctl __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _basaltmqctl basaltmqctl
`,
	"zsh": `#compdef basaltmqctl
# zsh completion of basaltmqctl: put it into a directory of $fpath as _basaltmqctl
_basaltmqctl() {
	local -a found
	found=("${(@f)$(basaltmqctl __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	found=(${found:#})
	if (( $#found )); then
		compadd -a found
	else
		_files
	fi
}
if [ "$funcstack[1]" = "_basaltmqctl" ]; then
	_basaltmqctl "$@"
else
	compdef _basaltmqctl basaltmqctl
fi
`,
	"fish": `# fish completion of basaltmqctl: put it into ~/.config/fish/completions
complete -c basaltmqctl -a '(basaltmqctl __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

func completion() command {
	return command{
		path: "completion", operands: "SHELL", summary: "print the completion script for bash, zsh or fish",
		details: "For this shell alone:  source <(basaltmqctl completion bash)",
		prepare: func(*flagSet) func(context.Context, console, []string) error {
			return func(_ context.Context, out console, o []string) error {
				script, ok := completionScripts[o[0]]
				if !ok {
					return usagef("%q is none of bash, zsh and fish", o[0])
				}
				_, err := io.WriteString(out.stdout, script)
				return err
			}
		},
	}
}

// complete prints what the last word may become.
func complete(ctx context.Context, words []string, out io.Writer) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	for _, candidate := range candidates(ctx, words[:len(words)-1], last) {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(out, candidate)
		}
	}
}

// candidates are the words that may follow; last is what there is of the next one.
func candidates(ctx context.Context, before []string, last string) []string {
	n := 0
	for n < len(before) && strings.HasPrefix(before[n], "-") {
		name, _, joined := strings.Cut(strings.TrimLeft(before[n], "-"), "=")
		value, known := sharedOptions[name]
		if !known {
			return nil
		}
		if n++; value && !joined {
			n++
		}
	}
	if n > len(before) {
		return nil // the value of an option
	}
	options, words := before[:n:n], before[n:]
	switch {
	case len(words) > 0:
	case strings.HasPrefix(last, "-"):
		return sharedWords()
	default:
		return nextWords(nil)
	}
	if words[0] == "help" {
		return nextWords(words[1:])
	}
	c, rest, err := find(words)
	if err != nil {
		return nextWords(words)
	}
	f := newFlagSet()
	c.prepare(f)
	if n := len(rest); n > 0 {
		if line := f.line(rest[n-1]); line != nil && line.argument != "" {
			if line.name == "vhost" {
				return c.names(ctx, append(options, rest[:n-1]...), "VHOST")
			}
			return line.choices
		}
	}
	if strings.HasPrefix(last, "-") {
		return f.words()
	}
	operand := c.operand(f, rest)
	if operand == "SHELL" {
		return []string{"bash", "fish", "zsh"}
	}
	return c.names(ctx, append(options, rest...), operand)
}

// nextWords are the words that commands have behind these.
func nextWords(words []string) (next []string) {
	for _, c := range commands() {
		path := strings.Fields(c.path)
		if len(path) > len(words) && hasPrefix(path, words) && !slices.Contains(next, path[len(words)]) {
			next = append(next, path[len(words)])
		}
	}
	if len(words) == 0 {
		next = append(next, "help")
	}
	slices.Sort(next)
	return next
}

// sharedWords are the options that may stand before the command.
func sharedWords() (list []string) {
	for name := range sharedOptions {
		if len(name) > 1 {
			list = append(list, "--"+name)
		}
	}
	slices.Sort(list)
	return list
}

// line finds an option by a word of the command line.
func (f *flagSet) line(word string) *flagLine {
	name := strings.TrimLeft(word, "-")
	if name == word || strings.Contains(word, "=") {
		return nil
	}
	for i := range f.lines {
		if l := &f.lines[i]; l.name == name || l.letter == name {
			return l
		}
	}
	return nil
}

// words are all options.
func (f *flagSet) words() (list []string) {
	for _, l := range f.lines {
		list = append(list, "--"+l.name)
	}
	slices.Sort(list)
	return list
}

// operand names the operand that comes behind these words; empty: there is none.
func (c command) operand(f *flagSet, rest []string) string {
	n := 0
	for i := 0; i < len(rest); i++ {
		if !strings.HasPrefix(rest[i], "-") {
			n++
		} else if l := f.line(rest[i]); l != nil && l.argument != "" {
			i++
		}
	}
	wanted := strings.Fields(c.operands)
	if n >= len(wanted) {
		return ""
	}
	return strings.Trim(wanted[n], "[].")
}

// nameLists are where the names of operands come from.
var nameLists = map[string]struct {
	path    string
	inVHost bool
}{
	"QUEUE": {"queues", true}, "TO": {"queues", true}, "EXCHANGE": {"exchanges", true}, "USER": {"users", false}, "VHOST": {"vhosts", false},
}

// completionPatience bounds how long a shell waits for the broker.
const completionPatience = time.Second

// names asks the broker that the words name; without an answer there are none.
func (c command) names(ctx context.Context, words []string, operand string) (names []string) {
	list, ok := nameLists[operand]
	if !ok || !c.remote {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	ask := remote(c.path, "[WORD...]", "x", "", true, func(*flagSet) func(*session, []string) error {
		return func(s *session, _ []string) error {
			segments := []string{list.path}
			if list.inVHost {
				segments = append(segments, s.vhost)
			}
			var page struct{ Items []struct{ Name string } }
			err := s.get(api(segments...)+"?page=1&page_size=500&columns=name", &page)
			for _, one := range page.Items {
				names = append(names, one.Name)
			}
			return err
		}
	})
	f := newFlagSet()
	action := ask.prepare(f)
	own := newFlagSet()
	c.prepare(own)
	for _, l := range own.lines { // options that are not asked for here
		if f.set.Lookup(l.name) == nil && l.argument == "" {
			f.toggle("", l.name, "")
		} else if f.set.Lookup(l.name) == nil {
			f.text("", l.name, l.argument, "", "")
		}
	}
	if operands, err := f.parse(words); err == nil {
		_ = action(ctx, console{io.Discard, io.Discard}, operands)
	}
	return names
}
