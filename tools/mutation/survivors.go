package main

import (
	"fmt"
	"os"
	"strings"
)

// readSurvivors returns the reason of each mutant that may survive. An entry is a line with the mutant and an indented
// line with the reason; a line that begins with # is a comment.
func readSurvivors(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	reasons := make(map[string]string)
	var waiting []string
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			if len(waiting) == 0 {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", name, i+1)
			}
			for _, key := range waiting {
				reasons[key] = strings.TrimSpace(line)
			}
			waiting = nil
		default:
			waiting = append(waiting, line)
		}
	}
	if len(waiting) > 0 {
		return nil, fmt.Errorf("%s: no reason for %s", name, waiting[0])
	}
	return reasons, nil
}

// report prints the score, the survivors without a reason and the reasons without a survivor.
func report(path string, b *bed, tried, lived []*mutant, reasons map[string]string) bool {
	survived := make(map[string]bool)
	unexplained, outdated := 0, 0
	for _, m := range lived {
		survived[m.key] = true
		if reasons[m.key] == "" {
			unexplained++
		}
	}
	for _, m := range tried {
		if reasons[m.key] != "" && !survived[m.key] {
			outdated++
			fmt.Printf("killed, so its reason is out of date: %s\n", m.key)
		}
	}
	caught := b.killed + b.timedOut
	total := caught + len(lived)
	fmt.Printf("%s: %d mutants, %d killed (%d by the time limit), %d survived (%d not reached by a test), %.1f %%; "+
		"%d without a reason\n", path, total, caught, b.timedOut, len(lived), b.notReached,
		100*float64(caught)/float64(max(1, total)), unexplained)
	return unexplained+outdated > 0
}
