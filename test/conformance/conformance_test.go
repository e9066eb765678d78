package conformance

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

var (
	captureAnew = flag.Bool("capture", false,
		"run real Debezium (needs Java 17 and Maven) and record again what it does")
	acceptAnew = flag.Bool("accept", false,
		"record again what cdc-outbox writes for the rows that are marked as different")
)

// endOfCapture is the prefix of the logical message after the last row; Capture.java waits for it.
const endOfCapture = "end of capture"

func TestMain(m *testing.M) { testkit.Main(m) }

// Bug (monitor): The schema of the objects of an array was optional where Debezium's merged one is not, and an empty
// array at the top had a schema. Cost: records that differ from Debezium's with `expand.json.payload` and schemas.
// Also: cases `expand_array_structs_schema`, `expand_array_empty_schema`, and with `-capture` 1,200 generated payloads.
func TestDebezium(t *testing.T) {
	written := loadCases(t)
	cases := written
	if *captureAnew {
		cases = append(cases, generated(t, written)...)
	}
	db := testkit.Postgres(t)
	db.Exec(t, joined(cases, tableFile))
	ours := newSubject(t, db, cases)
	var theirs *capture
	if *captureAnew {
		theirs = startCapture(t, db, cases)
	}
	db.Exec(t, joined(cases, rowsFile))
	db.Exec(t, fmt.Sprintf("SELECT pg_logical_emit_message(true, '%s', ''); INSERT INTO %s VALUES (1)", endOfCapture,
		endOfRows))
	var found map[string][]outcome
	if *captureAnew {
		found = theirs.outcomes(t)
		writeDown(t, written, found)
	}
	ours.read(t)
	for _, c := range cases[len(written):] {
		t.Run(c.name, func(t *testing.T) {
			compareGenerated(t, c, found[c.name], ours.routers[c.table].outcomes)
		})
	}
	for _, c := range written {
		if *acceptAnew {
			accept(t, c, ours.routers[c.table].outcomes)
		}
		t.Run(c.name, func(t *testing.T) { compare(t, c, ours.routers[c.table].outcomes) })
	}
}

// writeDown puts what was captured into the cases.
func writeDown(t *testing.T, cases []*testCase, found map[string][]outcome) {
	t.Helper()
	for _, c := range cases {
		require.NotEmpty(t, found[c.name], "%s: nothing captured", c.name)
		require.NoError(t, c.leaveOutChance(found[c.name]))
		c.set(debeziumFile, numbered(found[c.name]))
		require.NoError(t, c.save())
	}
}

// compare holds ours against Debezium's, row by row, but for the rows that are marked as different, which must be just
// so.
func compare(t *testing.T, c *testCase, outcomes []outcome) {
	theirs, different := split(c.file(debeziumFile)), split(c.file(oursFile))
	marked, err := c.differences()
	require.NoError(t, err)
	ours := split(numbered(outcomes))
	for n := 1; n <= max(len(ours), len(theirs)); n++ {
		got, ok := ours[n]
		if !ok {
			got = "nothing\n"
		}
		switch {
		case marked[n] != "":
			assert.False(t, agree(theirs[n], got), "row %d is marked as different, and is not", n)
			same(t, n, "the case says of cdc-outbox", different[n], got)
		case !agree(theirs[n], got):
			same(t, n, "Debezium", theirs[n], got)
		}
	}
}

// agree passes over the words in which a configuration is refused.
func agree(theirs, ours string) bool {
	return theirs == ours || strings.HasPrefix(theirs, refusedAtStart) && strings.HasPrefix(ours, refusedAtStart)
}

// accept records what cdc-outbox writes for the rows that are marked as different.
func accept(t *testing.T, c *testCase, outcomes []outcome) {
	t.Helper()
	marked, err := c.differences()
	require.NoError(t, err)
	if len(marked) == 0 {
		return
	}
	ours := split(numbered(outcomes))
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(marked)) {
		text, ok := ours[n]
		if !ok {
			text = "nothing\n"
		}
		fmt.Fprintf(&b, "%d %s", n, text)
	}
	c.set(oursFile, b.String())
	require.NoError(t, c.save())
}

// same shows both outcomes line by line where they differ; the tools for long strings hide what matters here.
func same(t *testing.T, row int, who, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("row %d\n%s:\n%s\ncdc-outbox:\n%s", row, who, want, got)
	}
}

// joined is the SQL of all cases, which runs as one transaction.
func joined(cases []*testCase, file string) string {
	var b strings.Builder
	for _, c := range cases {
		b.WriteString(c.file(file))
	}
	return b.String()
}
