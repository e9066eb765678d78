package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes a page for the command and for each command below it that help lists, into an existing directory.
// version is one line.
func Write(dir string, cmd *cobra.Command, version string) error {
	path := filepath.Join(dir, name(cmd)+".1")
	if err := os.WriteFile(path, []byte(Page(cmd, version)), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if err := Write(dir, c, version); err != nil {
			return err
		}
	}
	return nil
}

// name is the page's name: cdc-outbox-dead-letter-show.
func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Page is a page of section 1, in troff with the macros of man(7).
func Page(cmd *cobra.Command, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"cdc-outbox\"\n.nh\n.ad l\n", strings.ToUpper(name(cmd)), version)
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", escape(name(cmd)), escape(cmd.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", escape(cmd.UseLine()))
	if cmd.Long != "" {
		section("DESCRIPTION")
		for i, paragraph := range strings.Split(cmd.Long, "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			b.WriteString(lines(paragraph))
		}
	}
	options(&b, "OPTIONS", cmd.NonInheritedFlags())
	options(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		section("EXAMPLES")
		b.WriteString(".nf\n" + lines(cmd.Example) + ".fi\n")
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, name(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			also = append(also, name(c))
		}
	}
	if len(also) > 0 {
		section("SEE ALSO")
		b.WriteString(escape(strings.Join(also, "(1), ")) + "(1)\n")
	}
	return b.String()
}

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		head := "--" + f.Name
		if f.Shorthand != "" {
			head = "-" + f.Shorthand + ", " + head
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s", escape(strings.TrimSpace(head+" "+kind)), lines(usage))
	})
}

// lines escapes a text of several lines.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(escape(strings.TrimRight(line, "\n")) + "\n")
	}
	return b.String()
}

var characters = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`)

// escape makes a line a line of text: no request, and hyphens that can be copied.
func escape(line string) string {
	line = characters.Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
