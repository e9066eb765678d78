// Package docs checks that the pages point at what is there.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/clouds/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, p := range paths {
			b, err := os.ReadFile(p)
			require.NoError(t, err)
			texts[p] = string(b)
		}
	}
	return texts
}

var (
	link       = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)")
	testRun    = regexp.MustCompile("`go test (?:-race )?(?:-tags [a-z0-9]+ )?(?:-C ([a-z0-9/-]+) )?-run '?\\^?([A-Za-z0-9_]+)\\$?'? \\.(?:/([a-z0-9/-]*[a-z0-9])/?)?`")
)

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}

var (
	anchor   = regexp.MustCompile(`\]\(([^)#]*)#([^)]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	listing  = regexp.MustCompile("(?s)```.*?```")
	unlinked = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are those that GitHub makes of a page's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(listing.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), ""), " ", "-")] = true
	}
	return out
}

func TestAnchorsExist(t *testing.T) {
	texts := pages(t)
	seen := 0
	for page, text := range texts {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if there, ok := texts[target]; ok { // else another site, or a page that is not looked at
				require.True(t, anchors(there)[m[2]], "%s links to %s#%s", page, m[1], m[2])
				seen++
			}
		}
	}
	require.Positive(t, seen)
}

func TestMakeTargetsExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	seen := 0
	for page, text := range pages(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			require.Regexp(t, `(?m)^`+m[1]+`:`, string(b), "%s names make %s", page, m[1])
			seen++
		}
	}
	require.Positive(t, seen)
}

// TestBugsNameTheirTests reads the last column of docs/bugs.md: a list of regressions is worth something only while
// its tests exist.
func TestBugsNameTheirTests(t *testing.T) {
	b, err := os.ReadFile("bugs.md")
	require.NoError(t, err)
	rows := 0
	for _, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what went wrong") {
			continue
		}
		rows++
		m := testRun.FindStringSubmatch(line)
		require.NotNil(t, m, "no command in: %s", line)
		files, err := filepath.Glob(filepath.Join(root, m[1], m[3], "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "func "+m[2]+"(")
		}
		require.True(t, found, "%s has no test %s", m[1]+m[3], m[2])
	}
	require.Positive(t, rows)
}
