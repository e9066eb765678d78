// Package atfile reads values of the command line that may be in a file: @FILE.
package atfile

import (
	"os"
	"strings"
)

// Read returns the value itself, or for @FILE the text of the file without the white space around it. The error is the
// file's.
func Read(value string) (string, error) {
	path, file := strings.CutPrefix(value, "@")
	if !file {
		return value, nil
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
