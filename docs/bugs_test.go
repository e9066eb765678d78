package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write bugs.md and promises.md")

// bugSections are the sections of bugs.md, each with its key in the comments.
var bugSections = []struct{ key, heading string }{
	{"stream", "The stream, confirmation and repeats"},
	{"setup", "Publication, slot and setup"},
	{"checkpoint", "The checkpoint"},
	{"standbys", "Hot standbys and failover"},
	{"poolers", "Poolers, proxies and managed services"},
	{"rows", "The initial snapshot, replay, repair and prune"},
	{"producer", "The producer and exactly once"},
	{"router", "The router and its presets"},
	{"letters", "Dead letters"},
	{"polling", "Polling"},
	{"debezium", "Migration from Debezium"},
	{"monitor", "Status, monitor and alerts"},
	{"configuration", "Configuration, secrets and logins"},
}

const bugsHead = "# Bugs found, and the tests that prevent their return\n" +
	"\n" +
	"This page is printed from the comments of the tests: `make docs`.\n" +
	"\n" +
	"Each row is a mistake that was in this code, or that is known from other connectors and easily repeated. The " +
	"last column\n" +
	"names the test that fails if the mistake returns, and the directory of its package. Run a test with\n" +
	"\n" +
	"```sh\n" +
	"go test -C DIRECTORY -run '^TEST$' .\n" +
	"```\n" +
	"\n" +
	"If the row says \"e2e\", add `-tags e2e`. If it says \"race\", the mistake is a data race: add `-race`. The " +
	"directory\n" +
	"`deploy/testdata/rules` is not part of the Go workspace: put `GOWORK=off` in front of the command there.\n" + "\n"

var (
	bugComment = regexp.MustCompile(`^Bug \(([a-z]+)(, race)?\): (.+)\. Cost: (.+?)\.(?: Also: (.+)\.)?$`)
	e2eTag     = regexp.MustCompile(`(?m)^//go:build .*\be2e\b`)
	namedTest  = regexp.MustCompile("`((?:Test|Fuzz)\\w+)` in `([a-z0-9/-]+)`(, e2e)?")
)

// bugs are the rows of bugs.md by section, and the tests of the repository as the page names them.
type bugs struct {
	rows  map[string][]string
	tests map[string]bool
}

// TestBugs prints docs/bugs.md from the tests: a paragraph of a test's comment, such as "Bug (stream): What went wrong.
// Cost: what it cost.", is a row. More tests of the same bug follow after "Also: ".
func TestBugs(t *testing.T) {
	found := bugs{rows: map[string][]string{}, tests: map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			found.read(t, path)
		}
		return nil
	})
	require.NoError(t, err)

	var list, tables strings.Builder
	for _, s := range bugSections {
		require.NotEmpty(t, found.rows[s.key], s.heading)
		anchor := strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(s.heading), ""), " ", "-")
		fmt.Fprintf(&list, "- [%s](#%s)\n", s.heading, anchor)
		fmt.Fprintf(&tables, "\n## %s\n\n| what went wrong | what it cost | test |\n|---|---|---|\n%s", s.heading,
			strings.Join(found.rows[s.key], ""))
		delete(found.rows, s.key)
	}
	require.Empty(t, found.rows, "sections that are not known")
	page := bugsHead + list.String() + tables.String()
	for _, m := range namedTest.FindAllString(page, -1) {
		require.True(t, found.tests[m], "there is no %s", m)
	}
	if *update {
		require.NoError(t, os.WriteFile("bugs.md", []byte(page), 0o600))
	}
	text, err := os.ReadFile("bugs.md")
	require.NoError(t, err)
	require.Equal(t, page, string(text), "make docs prints bugs.md")
}

// read adds the tests and bugs of one file.
func (b *bugs) read(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	inE2E := ""
	if e2eTag.Match(text[:file.Package-1]) { // positions count from 1
		inE2E = ", e2e"
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	require.NoError(t, err)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		name := fmt.Sprintf("`%s` in `%s`%s", f.Name, filepath.ToSlash(dir), inE2E)
		b.tests[name] = true
		for _, p := range strings.Split(f.Doc.Text(), "\n\n") {
			if !strings.HasPrefix(p, "Bug") {
				continue
			}
			m := bugComment.FindStringSubmatch(strings.Join(strings.Fields(p), " "))
			require.NotNil(t, m, "%s: %s", f.Name, p)
			held := name + m[2]
			if m[5] != "" {
				held += "; " + m[5]
			}
			b.rows[m[1]] = append(b.rows[m[1]], fmt.Sprintf("| %s | %s | %s |\n", m[3], m[4], held))
		}
	}
}
