package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/clouds/*.md", "docs/decisions/*.md"} {
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

// anchors are the anchors that GitHub derives from a page's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(listing.ReplaceAllString(text, ""), -1) {
		words := unlinked.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		out[strings.ReplaceAll(words, " ", "-")] = true
	}
	return out
}

func TestAnchorsExist(t *testing.T) {
	texts, of := pages(t), map[string]map[string]bool{}
	for page, text := range texts {
		of[page] = anchors(text)
	}
	seen := 0
	for page, text := range texts {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if there, ok := of[target]; ok { // otherwise another site, or a page that is not checked
				require.True(t, there[m[2]], "%s links to %s#%s", page, m[1], m[2])
				seen++
			}
		}
	}
	require.Positive(t, seen)
}

// TestIndexListsEveryPage holds docs/README.md to the pages.
func TestIndexListsEveryPage(t *testing.T) {
	texts := pages(t)
	index := texts[filepath.Join(root, "docs", "README.md")]
	require.NotEmpty(t, index)
	for page := range texts {
		name, err := filepath.Rel(filepath.Join(root, "docs"), page)
		require.NoError(t, err)
		if name == "README.md" || strings.HasPrefix(name, "..") || decisionPage.MatchString(filepath.ToSlash(name)) {
			continue
		}
		require.Contains(t, index, "]("+filepath.ToSlash(name)+")", "docs/README.md does not list %s", name)
	}
}

var (
	decisionPage = regexp.MustCompile(`^decisions/(\d{3})-[a-z0-9-]+\.md$`)
	decisionHead = regexp.MustCompile(`^# (\d+)\. (.*)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: (.*)\.\n\n`)
)

// TestIndexOfDecisions holds the table in docs/decisions to the pages: number, title, date and status of each.
func TestIndexOfDecisions(t *testing.T) {
	texts := pages(t)
	index := texts[filepath.Join(root, "docs", "decisions", "README.md")]
	require.NotEmpty(t, index)
	found := 0
	for page, text := range texts {
		name, err := filepath.Rel(filepath.Join(root, "docs"), page)
		require.NoError(t, err)
		number := decisionPage.FindStringSubmatch(filepath.ToSlash(name))
		if number == nil {
			continue
		}
		found++
		head := decisionHead.FindStringSubmatch(text)
		require.NotNil(t, head, "%s begins with its number and title, and a line with date and status", name)
		require.Equal(t, strings.TrimLeft(number[1], "0"), head[1], name)
		row := fmt.Sprintf("| %s | [%s](%s) | %s | %s |", head[1], head[2], filepath.Base(name), head[3], head[4])
		require.Contains(t, index, row, "the index of the decisions")
	}
	require.Equal(t, found, strings.Count(index, "\n| ")-1, "rows of the index, its head left out")
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

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// TestDependenciesHaveReasons: dependencies.md names each module that the product requires directly.
func TestDependenciesHaveReasons(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	table, err := os.ReadFile("dependencies.md")
	require.NoError(t, err)
	found := requirement.FindAllStringSubmatch(string(b), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		name := strings.TrimPrefix(m[1], "github.com/")
		if strings.HasPrefix(name, "cdc-outbox/") {
			continue
		}
		name = regexp.MustCompile(`/v\d+$`).ReplaceAllString(name, "")
		if exporters, ok := strings.CutPrefix(name, "go.opentelemetry.io/otel/"); ok {
			name = exporters[strings.LastIndex(exporters, "/")+1:]
		}
		require.Contains(t, string(table), name, "no reason for %s", m[1])
	}
}

var (
	house  = regexp.MustCompile("`([a-z][a-z0-9/-]*)`")
	drawn  = regexp.MustCompile(`[a-z][a-z/-]+`)
	arrows = regexp.MustCompile(`[│─┌┐└┘├┤┬┴┼▶◀▼▲\d]`)
)

// TestHousesAreListed: each package of the product is in a house of ARCHITECTURE.md's table, each house exists, and
// the picture shows all houses with code of the product.
func TestHousesAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "## The houses")
	text, _, ok := strings.Cut(text, "\n## ")
	require.True(t, ok)
	picture := drawn.FindAllString(arrows.ReplaceAllString(strings.Split(text, "```")[1], " "), -1)
	listed := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range house.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			listed[m[1]] = true
			require.DirExists(t, filepath.Join(root, m[1]))
			if m[1] != "docs" {
				require.Contains(t, picture, strings.TrimPrefix(m[1], "internal/"))
			}
		}
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if rel != "." {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "testdata" ||
				strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
		}
		files, _ := filepath.Glob(filepath.Join(path, "*.go"))
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if len(files) == 0 {
			return nil
		}
		for at := filepath.ToSlash(rel); at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
			if listed[at] {
				return nil
			}
		}
		t.Errorf("no house holds %s", rel)
		return nil
	})
	require.NoError(t, err)
}
