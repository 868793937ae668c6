package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// PrintDefaults writes a file with all keys, their meanings and defaults. Reading
// it gives the defaults.
func PrintDefaults(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# The configuration of BasaltMQ: all keys, with their defaults.\n#\n" +
		"# Flags override variables of the environment (BASALTMQ_SECTION_KEY, for example\n" +
		"# BASALTMQ_AMQP_PORT), and those override this file. Keys marked * are taken over\n" +
		"# by a running broker on SIGHUP (systemctl reload basaltmq); others need a restart.\n")
	for _, s := range Sections {
		if s.Name == "" {
			fmt.Fprintf(&b, "\n# %s\n", s.Help)
		} else {
			fmt.Fprintf(&b, "\n# %s\n[%s]\n", s.Help, s.Name)
		}
		for i := range keys {
			if k := &keys[i]; k.Section() == s.Name {
				writeKey(&b, k)
			}
		}
		if s.Name == "tls" {
			b.WriteString("\n# Other certificates for other host names, as often as needed:\n# [[tls.sni]]\n")
			for _, k := range sniKeys {
				fmt.Fprintf(&b, "# %s = \"\" # %s\n", k.name, k.help)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeKey(b *strings.Builder, k *Key) {
	mark := ""
	if k.Reload {
		mark = " *"
	}
	fmt.Fprintf(b, "\n# %s%s%s\n%s = %s\n", capital(k.Help), detail(k), mark, k.Leaf(), k.Literal())
}

// detail is what is allowed where the help does not say.
func detail(k *Key) string {
	switch v := k.value(new(Config)).(type) {
	case choice:
		for _, c := range v.from {
			if !strings.Contains(k.Help, c) {
				return " (" + v.allowed() + ")"
			}
		}
	case number:
		if v.max != 65535 {
			return fmt.Sprintf(" (%d to %d)", v.min, v.max)
		}
	case size:
		return fmt.Sprintf(" (%s to %s)", formatBytes(v.min), formatBytes(v.max))
	}
	return ""
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// PrintHelp writes the flags, after an introduction.
func PrintHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`basaltmq, a message broker for AMQP 0-9-1 clients.

Usage: basaltmq [flags]

Every flag overrides a key of the configuration file and its variable of the
environment (BASALTMQ_SECTION_KEY). Defaults are in parentheses.

`)
	line := func(names []string, argument, help string) {
		left := "    "
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = dashes(name)
		}
		if len(names[0]) == 1 {
			left = ""
		}
		left += strings.Join(list, ", ")
		if argument != "" {
			left += " " + argument
		}
		wrap(&b, left, help)
	}
	line([]string{"c", "config"}, "FILE", "configuration file ("+DefaultFile+", if it exists)")
	for _, s := range Sections {
		if !slices.ContainsFunc(keys, func(k Key) bool { return k.Section() == s.Name && len(k.Flags) > 0 }) {
			continue
		}
		if s.Name != "" {
			fmt.Fprintf(&b, "\n%s:\n", s.Help)
		}
		for i := range keys {
			k := &keys[i]
			if k.Section() != s.Name || len(k.Flags) == 0 {
				continue
			}
			names := k.Flags
			if len(names[0]) > 1 {
				names = names[:1] // older names keep working
			}
			line(names, k.Argument, helpWithDefault(k))
		}
		for _, wide := range wideFlags {
			if k := find(wide.keys[0]); k.Section() == s.Name {
				line(wide.names, wide.argument, wide.help)
			}
		}
	}
	b.WriteString("\nInstead of running:\n")
	line([]string{"print-default-config"}, "", "print a configuration file with all keys and their defaults")
	line([]string{"check"}, "", "check the configuration and exit")
	line([]string{"v", "version"}, "", "print the version")
	line([]string{"h", "help"}, "", "print this text")
	_, err := io.WriteString(w, b.String())
	return err
}

func helpWithDefault(k *Key) string {
	if k.Default == "" || k.isToggle() || k.Default == noneWord {
		return k.Help
	}
	return k.Help + " (" + k.Default + ")"
}

// wrap writes help beside, or below, what it explains.
func wrap(b *strings.Builder, left, help string) {
	const column, width = 30, 92
	fmt.Fprintf(b, "  %-*s", column-2, left)
	at := max(column, len(left)+2)
	if len(left)+2 >= column {
		b.WriteString("\n" + strings.Repeat(" ", column))
		at = column
	}
	for i, word := range strings.Fields(help) {
		if i > 0 {
			if at+1+len(word) > width {
				b.WriteString("\n" + strings.Repeat(" ", column))
				at = column
			} else {
				b.WriteByte(' ')
				at++
			}
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteByte('\n')
}
