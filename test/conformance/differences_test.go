package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const differencesPage = "../../docs/debezium-differences.md"

var section = regexp.MustCompile(`(?ms)^### (\S+)$(.*?)^Cases: (.*?)\.$`)

// TestDifferencesPage holds docs/debezium-differences.md and the cases together: every heading that a case names is
// there, and lists exactly the cases that name it.
func TestDifferencesPage(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, c := range loadCases(t) {
		marked, err := c.differences()
		require.NoError(t, err, c.name)
		for _, heading := range marked {
			if used[heading] == nil {
				used[heading] = map[string]bool{}
			}
			used[heading][c.name] = true
		}
	}
	page, err := os.ReadFile(differencesPage)
	require.NoError(t, err)
	if *acceptAnew {
		page = section.ReplaceAllFunc(page, func(text []byte) []byte {
			m := section.FindSubmatch(text)
			return []byte("### " + string(m[1]) + string(m[2]) + wrap("Cases: "+caseList(used[string(m[1])])))
		})
		require.NoError(t, os.WriteFile(differencesPage, page, 0o644))
	}
	listed := map[string]string{}
	for _, m := range section.FindAllSubmatch(page, -1) {
		listed[string(m[1])] = strings.Join(strings.Fields(string(m[3])), " ") + "."
	}
	assert.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(listed)),
		"headings that cases name, headings of the page with a list of cases")
	for heading, cases := range used {
		assert.Equal(t, caseList(cases), listed[heading],
			"cases of %s; go test ./test/conformance -accept writes the lists again", heading)
	}
}

func caseList(cases map[string]bool) string {
	return "`" + strings.Join(slices.Sorted(maps.Keys(cases)), "`, `") + "`."
}

// wrap breaks a paragraph into lines of at most 120 columns, as the page has them.
func wrap(text string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 120:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}
