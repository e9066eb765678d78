package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// generatedRows is the number of payloads for each set of options.
const generatedRows = 300

// generated are cases whose payloads are random, for captures only: JSON of any shape, the same each time, through
// real Debezium and through the product. They are not written down.
func generated(t *testing.T, like []*testCase) []*testCase {
	t.Helper()
	var model *testCase
	for _, c := range like {
		if c.name == "expand_own_tests" {
			model = c
		}
	}
	require.NotNil(t, model)
	var cases []*testCase
	for i, options := range []struct{ schemas, nulls string }{
		{"true", "ignore"}, {"false", "ignore"}, {"true", "optional_bytes"}, {"false", "optional_bytes"},
	} {
		name := fmt.Sprintf("generated_%d", i)
		c := &testCase{name: name, path: name, archive: &txtar.Archive{}, table: "public." + name}
		c.config = map[string]string{}
		for k, v := range model.config {
			c.config[k] = strings.ReplaceAll(v, model.name, name)
		}
		c.config["value.converter.schemas.enable"] = options.schemas
		c.config["transforms.outbox.table.json.payload.null.behavior"] = options.nulls
		posted, err := json.Marshal(map[string]any{"name": name, "config": c.config})
		require.NoError(t, err)
		c.connector = posted
		c.set(connectorFile, string(posted))
		// jsonb changes what it is given, json does not.
		c.set(tableFile, strings.NewReplacer(model.name, name, "jsonb", []string{"jsonb", "json"}[i/2]).
			Replace(model.file(tableFile)))
		c.set(rowsFile, generatedInserts(name, uint64(i)))
		cases = append(cases, c)
	}
	return cases
}

func generatedInserts(table string, seed uint64) string {
	g := payloads{rand.New(rand.NewPCG(1, seed))}
	var b strings.Builder
	for n := range generatedRows {
		payload := strings.ReplaceAll(g.object(4), "'", "''")
		if n%20 == 0 {
			payload = strings.ReplaceAll(g.array(3), "'", "''")
		}
		fmt.Fprintf(&b, "INSERT INTO %s VALUES ('00000000-0000-4000-8000-%012d', 'Order', '%d', 'Created', '%s');\n",
			table, n+1, n+1, payload)
	}
	return b.String()
}

// payloads makes JSON. Objects of one array have the same members, or the first ones of them: the order of members that
// Debezium merges is by chance otherwise.
type payloads struct{ *rand.Rand }

func (g payloads) value(depth int) string {
	n := g.IntN(12)
	switch {
	case n < 2 && depth > 0:
		return g.object(depth - 1)
	case n < 5 && depth > 0:
		return g.array(depth - 1)
	case n == 5:
		return "null"
	}
	return g.scalar(g.IntN(4))
}

func (g payloads) scalar(kind int) string {
	switch kind {
	case 0:
		return pick(g, "true", "false")
	case 1:
		return pick(g, "0", "-1", "7", "2147483647", "-2147483648", "2147483648", "-9007199254740993",
			"9223372036854775807")
	case 2:
		return pick(g, "0.5", "-1.25", "1e3", "3.141592653589793", "1e-7", "100.0", "12345678901234.5")
	}
	return pick(g, `""`, `"a"`, `"ünï"`, `"😀"`, `"an 'a' \"b\""`, `"\\n"`, `"1"`, `"null"`, `"tab\there"`)
}

func pick(g payloads, from ...string) string { return from[g.IntN(len(from))] }

// memberNames are in the order of jsonb: by length in bytes, then by bytes.
var memberNames = []string{"A", "a", "b", "id", "1st", "a.b", "x-y", "name", "äß", "schema", "payload", "with space"}

func (g payloads) object(depth int) string {
	var members []string
	for _, i := range g.Perm(len(memberNames))[:g.IntN(5)] {
		members = append(members, fmt.Sprintf("%q: %s", memberNames[i], g.value(depth)))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func (g payloads) array(depth int) string {
	n := g.IntN(4)
	var items []string
	switch kind := g.IntN(7); {
	case kind == 0 && depth > 0: // arrays
		for range n {
			items = append(items, g.array(depth-1))
		}
	case kind == 1: // of different types
		for range n {
			items = append(items, g.scalar(g.IntN(4)))
		}
	case kind < 4: // objects; one of them may have fewer members, or null for them
		names, kinds := g.Perm(len(memberNames))[:g.IntN(4)], g.Perm(4)
		slices.Sort(names)
		for i := range n {
			whole, null := len(names), g.IntN(4) == 0
			if i == 0 && whole > 0 && g.IntN(2) == 0 {
				whole = g.IntN(whole)
			}
			var members []string
			for k, at := range names {
				value := g.scalar(kinds[k])
				if k >= whole {
					if !null {
						continue
					}
					value = "null"
				}
				members = append(members, fmt.Sprintf("%q: %s", memberNames[at], value))
			}
			items = append(items, "{"+strings.Join(members, ", ")+"}")
		}
	default:
		for kind := g.IntN(4); len(items) < n; {
			items = append(items, g.scalar(kind))
		}
	}
	if n > 0 && g.IntN(6) == 0 {
		items[g.IntN(n)] = "null"
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// compareGenerated: whatever Debezium publishes is published just so.
func compareGenerated(t *testing.T, c *testCase, theirs, ours []outcome) {
	require.Len(t, theirs, generatedRows)
	require.Len(t, ours, generatedRows)
	rows := strings.Split(c.file(rowsFile), "\n")
	published := 0
	for i := range theirs {
		if strings.HasPrefix(theirs[i].Fate, "task dies") {
			continue
		}
		published++
		if want, got := theirs[i].String(), ours[i].String(); want != got {
			assert.Fail(t, "different", "%s\nDebezium:\n%s\ncdc-outbox:\n%s", rows[i], want, got)
		}
	}
	t.Logf("%d of %d payloads are published by Debezium", published, generatedRows)
	require.Greater(t, published, generatedRows*3/4)
}
