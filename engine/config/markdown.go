package config

import (
	"fmt"
	"io"
	"strings"
)

// PrintMarkdown writes the tables of docs/configuration.md.
func PrintMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, s := range Sections {
		title := "[" + s.Name + "]"
		if s.Name == "" {
			title = "Above all sections"
		}
		fmt.Fprintf(&b, "### %s\n\n%s.\n\n| key | default | meaning | flags | reload |\n|---|---|---|---|---|\n", title, s.Help)
		for i := range keys {
			k := &keys[i]
			if k.Section() != s.Name {
				continue
			}
			flags := make([]string, len(k.Flags))
			for i, name := range k.Flags {
				flags[i] = "`" + dashes(name) + "`"
			}
			reload := "restart"
			if k.Reload {
				reload = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s%s | %s | %s |\n", k.Leaf(), k.Literal(), k.Help, detail(k), strings.Join(flags, ", "), reload)
		}
		if s.Name == "tls" {
			b.WriteString("\nAnd for each further certificate a `[[tls.sni]]`, in the file only:\n\n| key | meaning |\n|---|---|\n")
			for _, k := range sniKeys {
				fmt.Fprintf(&b, "| `%s` | %s |\n", k.name, k.help)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
