package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

func written(t *testing.T, findings []preflight.Finding, s Style, quiet bool) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Findings(&b, findings, s, quiet))
	return b.String()
}

// TestFindings: the worst comes first, and what is said of several subjects is said once.
func TestFindings(t *testing.T) {
	findings := []preflight.Finding{
		{Level: preflight.OK, Subject: "wal_level", Found: "logical"},
		{Level: preflight.Warn, Subject: "topic a", Found: "One replica.", Why: "Lost with it.", Remedy: "Add one."},
		{Level: preflight.Warn, Subject: "slot s", Found: "One replica.", Why: "Lost with it.", Remedy: "Add one."},
		{Level: preflight.Fail, Subject: "topic c", Found: "missing", Remedy: "Create it.", Commands: []string{"x c"}},
		{Level: preflight.Warn, Subject: "topic b", Found: "One replica.", Why: "Lost with it.", Remedy: "Add one."},
		{Level: preflight.Fail, Subject: "topic d", Found: "missing", Remedy: "Create it.", Commands: []string{"x d"}},
	}
	problems := `✗ topic c: missing
    fix: Create it.
         x c
✗ topic d: missing
    fix: Create it.
         x d
! topics a, b: One replica.
    why: Lost with it.
    fix: Add one.
! slot s: One replica.
    why: Lost with it.
    fix: Add one.
`
	require.Equal(t, problems+"✓ wal_level: logical\n", written(t, findings, Style{}, false))
	require.Equal(t, problems, written(t, findings, Style{}, true))
	require.Contains(t, written(t, findings, Style{Colour: true}, false), "\x1b[31m✗\x1b[0m topic c")
}

func TestManySubjects(t *testing.T) {
	var findings []preflight.Finding
	for i := range 50 {
		f := preflight.Finding{Level: preflight.Warn, Subject: fmt.Sprint("topic t", i), Found: "so"}
		findings = append(findings, f)
	}
	require.Equal(t, "! topics t0, t1, t2, t3, t4, t5, t6, and 43 more: so\n", written(t, findings, Style{}, false))
}

// TestWrap: text hangs below its beginning, and a command stays whole.
func TestWrap(t *testing.T) {
	command := "kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic order.events"
	got := written(t, []preflight.Finding{{
		Level: preflight.Fail, Subject: "topic order.events", Found: "It does not exist, and will not be created.",
		Why: "The connector waits for it.\n\nSecond.", Remedy: "Create it as the others are.",
		Commands: []string{command},
	}}, Style{Width: 30}, false)
	require.Equal(t, `✗ topic order.events: It does
  not exist, and will not be
  created.
    why: The connector waits
         for it.
         
         Second.
    fix: Create it as the
         others are.
         `+command+"\n", got)
}

// TestCut: a word that is longer than the line stays whole.
func TestCut(t *testing.T) {
	for _, c := range []struct{ line, head, rest string }{
		{"short", "short", ""},
		{"aaaa bbbb cccc", "aaaa bbbb", "cccc"},
		{"aaaaaaaaaaaaaaaa bb", "aaaaaaaaaaaaaaaa", "bb"},
		{"aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", ""},
		{"ééééé ééééé é", "ééééé", "ééééé é"},
	} {
		head, rest := cut(c.line, 10)
		require.Equal(t, []string{c.head, c.rest}, []string{head, rest}, c.line)
	}
}
