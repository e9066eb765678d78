package main

import (
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
)

// finding is one violation of a rule.
type finding struct {
	file   string
	line   int
	rule   string
	text   string // what was found, with a little of what surrounds it
	say    string // what to write instead, or what is wrong
	advice bool
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: [%s] %s: %s", f.file, f.line, f.rule, strings.Join(strings.Fields(f.text), " "), f.say)
}

// selected keeps the findings that the options ask for, in the order of files and lines.
func selected(found []finding, o options) []finding {
	var kept []finding
	for _, f := range found {
		switch {
		case f.advice && !o.advice:
		case o.rules != "" && !contains(o.rules, func(rule string) bool { return rule == f.rule }):
		case o.paths != "" && !contains(o.paths, func(p string) bool { return strings.HasPrefix(f.file, p) }):
		default:
			kept = append(kept, f)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool {
		if kept[i].file != kept[j].file {
			return kept[i].file < kept[j].file
		}
		return kept[i].line < kept[j].line
	})
	return kept
}

func contains(list string, match func(string) bool) bool {
	for item := range strings.SplitSeq(list, ",") {
		if match(item) {
			return true
		}
	}
	return false
}

func printFindings(out io.Writer, found []finding) {
	for _, f := range found {
		fmt.Fprintln(out, f)
	}
	if len(found) > 0 {
		fmt.Fprintf(out, "prose: %d findings\n", len(found))
	}
}

func printSummary(out io.Writer, found []finding) {
	rules, dirs := map[string]int{}, map[string]int{}
	for _, f := range found {
		rules[f.rule]++
		dirs[path.Dir(f.file)]++
	}
	for _, counts := range []map[string]int{rules, dirs} {
		names := make([]string, 0, len(counts))
		for name := range counts {
			names = append(names, name)
		}
		sort.Slice(names, func(i, j int) bool {
			a, b := names[i], names[j]
			return counts[a] > counts[b] || counts[a] == counts[b] && a < b
		})
		for _, name := range names {
			fmt.Fprintf(out, "%6d  %s\n", counts[name], name)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%6d  in all\n", len(found))
}
