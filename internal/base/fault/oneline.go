package fault

import (
	"slices"
	"strings"
)

// OneLine is an error with its text on one line, each sentence once. pgconn tries each host with TLS and without, and
// lists the result of every attempt on a line of its own, mostly the same.
func OneLine(err error) error { return oneLine{err} }

type oneLine struct{ error }

func (e oneLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func (e oneLine) Unwrap() error { return e.error }
