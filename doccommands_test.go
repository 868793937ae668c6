package basaltmq_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	aside       = regexp.MustCompile(`\s+#.*| {4,}.*`) // behind a command: what it does
	inlineCode  = regexp.MustCompile("`([^`]+)`")
	pid         = regexp.MustCompile(`\$\(pidof basaltmq\)|\bPID\b`)
	ourProgram  = regexp.MustCompile(`^(bin/)?basaltmq(ctl|perf)?$`)
	placeholder = regexp.MustCompile(`[…|\[\]]|\.\.\.`) // a command's form, not a command
)

// TestDocumentCommands: the programs know every command and option that the
// documents show. Nothing is run: each line gets --help at its end.
func TestDocumentCommands(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+"/", "./cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range commandsIn(string(text)) {
			program := filepath.Base(words[0])
			seen[program]++
			args := words[1:]
			if len(args) == 0 || args[0] != "help" {
				args = append(slices.Clone(args), "--help")
			}
			if out, err := exec.Command(filepath.Join(bin, program), args...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", document, strings.Join(words, " "), err, out)
			}
		}
	}
	for _, program := range []string{"basaltmq", "basaltmqctl", "basaltmqperf"} {
		if seen[program] < 10 {
			t.Errorf("%d commands of %s were found: are they written in another way?", seen[program], program)
		}
	}
}

// commandsIn finds the commands of this project in the code of a document.
func commandsIn(text string) (commands [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	fenced := false
	for line := range strings.Lines(text) {
		var pieces []string
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    "):
			pieces = strings.Split(aside.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(line), "$ "), ""), " | ")
		default:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				if !placeholder.MatchString(m[1]) {
					pieces = append(pieces, m[1])
				}
			}
		}
		for _, piece := range pieces {
			words := shellWords(pid.ReplaceAllString(piece, "1"))
			if len(words) < 2 || !ourProgram.MatchString(words[0]) {
				continue
			}
			if name := words[len(words)-1]; name == strings.ToUpper(name) && (len(words) == 2 || words[1] == "help") {
				continue // "basaltmqctl COMMAND"
			}
			commands = append(commands, words)
		}
	}
	return commands
}

// shellWords splits a line as a shell does, as far as documents need it.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, quoted := rune(0), false
	for _, r := range line {
		switch {
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, quoted = r, true
		case r == ' ':
			if word.Len() > 0 || quoted {
				words = append(words, word.String())
			}
			word.Reset()
			quoted = false
		case r == '>':
			return words // the shell's
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 || quoted {
		words = append(words, word.String())
	}
	return words
}
