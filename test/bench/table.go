package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// table prints the tables of a file that -out has written, or puts them between the markers of Markdown pages.
func table(args []string) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: bench table FILE [PAGE.md ...]")
	}
	f, err := os.Open(flags.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	config, all, err := parseOutput(f)
	if err != nil {
		return err
	}
	if flags.NArg() == 1 {
		for _, name := range []string{"throughput", "goals", "codecs"} {
			fmt.Println(section(name, config, all))
		}
		return nil
	}
	for _, page := range flags.Args()[1:] {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := os.WriteFile(page, []byte(fillMarkers(string(text), config, all)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	markerStart = "<!-- bench:"
	markerEnd   = "<!-- end of bench -->\n"
)

// fillMarkers replaces what is between markers; a table without figures in this file stays as it is.
func fillMarkers(text string, config map[string]string, all []*series) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, markerStart)
		name, after, named := strings.Cut(rest, " -->\n")
		old, after, ended := strings.Cut(after, markerEnd)
		if !ok || !named || !ended {
			return out.String() + text
		}
		out.WriteString(before + markerStart + name + " -->\n")
		if s := section(name, config, all); s != "" {
			out.WriteString(s)
		} else {
			out.WriteString(old)
		}
		out.WriteString(markerEnd)
		text = after
	}
}

// section is a table by its name, with a line that says what was measured; empty without figures.
func section(name string, config map[string]string, all []*series) string {
	var b strings.Builder
	first := &series{}
	switch name {
	case "throughput":
		for _, load := range []string{tenPerTx, onePerTx} {
			if s := find(all, load, napping); s != nil {
				fmt.Fprintf(&b, "%s, %d rows:\n\n", loadName(load), s.rows)
				reportThroughput(&b, all, load)
				fmt.Fprintln(&b)
				first = s
			}
		}
	case "goals":
		first = sectionOf(&b, find(all, tenPerTx, napping), all, reportGoals)
	case "codecs":
		first = sectionOf(&b, find(all, codecLoad, codecPrefix+"none"), all, reportCodecs)
	}
	if first == nil || len(first.passes) == 0 {
		return ""
	}
	return fmt.Sprintf("PostgreSQL %s, Kafka %s, %s, %s cores; rounds: %d.\n\n%s\n", config["postgres"],
		config["kafka"], config["go"], config["cores"], len(first.passes), strings.TrimRight(b.String(), "\n"))
}

func sectionOf(w io.Writer, first *series, all []*series, report func(io.Writer, []*series)) *series {
	if first != nil {
		report(w, all)
	}
	return first
}
