package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
)

// The page spells sizes and durations as the program's other texts do: one list of examples holds for both.
//
// Bug (monitor): The page wrote moments in the browser's own time zone, alerts and commands in UTC, a watch without its
// day; lines wrapped inside a moment. Cost: an hour's difference between the page and the log, at night. Also:
// `TestMomentStaysOnOneLine` in `internal/watch/page`; `TestSpelling` in `internal/base/human`.
func TestSpellingOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../base/human/testdata/spelling.json")
	require.NoError(t, err)
	var list map[string][][2]any
	require.NoError(t, json.Unmarshal(text, &list))
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	for name, examples := range list {
		values := []any{}
		for _, example := range examples {
			values = append(values, example[0])
		}
		arguments, err := json.Marshal(values)
		require.NoError(t, err)
		for i, got := range call[[]string](tab, "format.js", fmt.Sprintf("%s.map(m.%s)", arguments, name)) {
			require.Equal(t, examples[i][1], got, "%s of %v", name, examples[i][0])
		}
	}
}

// A moment is one word for the eye, and browsers wrap lines at its hyphens.
func TestMomentStaysOnOneLine(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	const sentence = "It answered until 2026-01-02T03:05:06Z, then it closed the connection."
	got := call[[]any](tab, "dom.js", `(() => {
		const p = document.createElement('p');
		p.style.width = '5rem';
		document.body.append(p);
		m.text(p, '`+sentence+`');
		return [p.textContent, p.querySelector('time').getClientRects().length];
	})()`)
	require.Equal(t, []any{sentence, 1.0}, got)
}
