package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThreatsAreHeld: each row of the table "What was tried" names tests that exist.
func TestThreatsAreHeld(t *testing.T) {
	page, err := os.ReadFile("threat-model.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## What was tried\n")
	require.True(t, found)
	rows := strings.Split(table, "\n| ")[2:]
	require.Greater(t, len(rows), 15)
	named := regexp.MustCompile("((?:`Test\\w+`(?: and )?)+) in `([a-z0-9/-]+)`")
	for _, row := range rows {
		held := named.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, held, row)
		for _, m := range held {
			code := ""
			files, err := filepath.Glob(filepath.Join(root, m[2], "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				code += string(text)
			}
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(m[1], -1) {
				require.Contains(t, code, "\nfunc "+name+"(t *testing.T)", "%s has no %s", m[2], name)
			}
		}
	}
}
