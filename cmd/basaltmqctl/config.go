package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/config/convert"
)

// configuration are the commands around the configuration file.
func configuration() []command {
	return []command{configCheck(), configConvert(), reload()}
}

// fileBytesMax bounds what is read of a configuration file.
const fileBytesMax = 1 << 20

func readText(name string) (string, error) {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return "", err
		}
		defer f.Close()
	}
	data, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(data) > fileBytesMax {
		err = fmt.Errorf("%s has more than a MiB: it is no configuration file", name)
	}
	return string(data), err
}

func configCheck() command {
	return command{path: "config check", operands: "[FILE]", summary: "check a configuration file",
		details: `
FILE is ` + config.DefaultFile + ` if none is given; - reads standard input. Only the
file is looked at, not the environment: basaltmq --check, with the broker's flags,
does both. Exit status 1: there are mistakes; each is a line on standard output.`,
		prepare: func(*flagSet) func(context.Context, console, []string) error {
			return func(_ context.Context, out console, operands []string) error {
				name := config.DefaultFile
				if len(operands) > 0 {
					name = operands[0]
				}
				text, err := readText(name)
				if err != nil {
					return err
				}
				if _, err := config.CheckText(name, text); err != nil {
					fmt.Fprintln(out.stdout, err)
					return errProblems
				}
				fmt.Fprintf(out.stdout, "%s: good\n", name)
				return nil
			}
		}}
}

func configConvert() command {
	return command{path: "config convert", operands: "FILE", summary: "translate a lavinmq.ini or rabbitmq.conf",
		details: `
Writes a configuration file for BasaltMQ to standard output, with a comment for each
entry that cannot be translated; these, and the reasons, also go to standard error.
What RabbitMQ's advanced.config holds, and what environment variables and plugins say,
is not looked at. - reads standard input. Exit status 1: something was not translated.`,
		prepare: func(f *flagSet) func(context.Context, console, []string) error {
			from := f.text("", "from", "BROKER", "", "lavinmq or rabbitmq, where the file's name and text do not tell")
			output := f.text("o", "output", "FILE", "", "write there instead; it must not exist")
			quiet := f.toggle("q", "quiet", "only tell what is lost, not what is not needed here")
			return func(_ context.Context, out console, operands []string) error {
				text, err := readText(operands[0])
				if err != nil {
					return err
				}
				format := convert.Format(*from)
				switch format {
				case "":
					format = convert.Guess(operands[0], text)
				case convert.LavinMQ, convert.RabbitMQ:
				default:
					return usagef("--from %q is neither lavinmq nor rabbitmq", *from)
				}
				r, err := convert.Convert(format, text)
				if err != nil {
					return fmt.Errorf("%s, taken for a file of %s: %w", operands[0], format, err)
				}
				var b bytes.Buffer
				_ = r.Write(&b, operands[0]) // to memory
				if err := writeNew(*output, b.Bytes(), out.stdout); err != nil {
					return err
				}
				if !*quiet {
					for _, n := range r.Needless {
						fmt.Fprintf(out.stderr, "not needed: %s\n", n)
					}
				}
				for _, n := range r.Lost {
					fmt.Fprintf(out.stderr, "NOT TRANSLATED: %s\n", n)
				}
				if len(r.Lost) > 0 {
					return errProblems
				}
				return nil
			}
		}}
}

// writeNew writes a file that may hold a password, or to stdout without a name.
func writeNew(name string, data []byte, stdout io.Writer) error {
	if name == "" {
		_, err := stdout.Write(data)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func reload() command {
	return remote("reload", "", "let the broker read its configuration anew",
		`
As SIGHUP does. Lists the keys whose values were taken over and those that need a
restart. If the new configuration has a mistake, nothing changes.`, false,
		func(*flagSet) func(*session, []string) error {
			return func(s *session, _ []string) error {
				answer, err := s.do(http.MethodPost, api("basaltmq", "reload"), nil)
				if err != nil {
					return err
				}
				defer answer.Close()
				return s.showReload(answer)
			}
		})
}

func (s *session) showReload(answer io.Reader) error {
	if s.format == "json" {
		_, err := io.Copy(s.out.stdout, answer)
		return err
	}
	var got struct {
		Changed []string `json:"changed"`
		Files   []string `json:"files"`
		Restart []string `json:"needs_restart"`
	}
	if err := json.NewDecoder(answer).Decode(&got); err != nil {
		return fmt.Errorf("the broker's answer ended early: %w", err)
	}
	if len(got.Changed)+len(got.Files)+len(got.Restart) == 0 {
		fmt.Fprintln(s.out.stdout, "nothing has changed")
	}
	if len(got.Changed) > 0 {
		fmt.Fprintf(s.out.stdout, "taken over: %s\n", strings.Join(got.Changed, " "))
	}
	if len(got.Files) > 0 {
		fmt.Fprintf(s.out.stdout, "new certificates: %s\n", strings.Join(got.Files, " "))
	}
	if len(got.Restart) > 0 {
		fmt.Fprintf(s.out.stdout, "needs a restart: %s\n", strings.Join(got.Restart, " "))
	}
	return nil
}
