package fault_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// TestEscaped: a reader of the JSON gets the text, and a terminal or browser that shows it nothing to obey.
//
// Bug (monitor): JSON of `/status`, of the page and of commands had U+009B and U+202E of an aggregate id as they are,
// and the log U+202E. Cost: a row could control the terminal of who looks at it, or make a line read as another one.
func TestEscaped(t *testing.T) {
	const hostile = "a\u009b31m\u007f\u0085\u202egpj.exe\u2069\u061c\u200e\u2028\x1b\a é—🔒\xff"
	text, err := json.Marshal(map[string]string{hostile: hostile})
	require.NoError(t, err)
	out := fault.Escaped(text)
	for _, r := range string(out) {
		require.Equal(t, string(r), fault.Printable(string(r)))
	}
	var before, after map[string]string
	require.NoError(t, json.Unmarshal(text, &before))
	require.NoError(t, json.Unmarshal(out, &after))
	require.Equal(t, before, after)
	require.Equal(t, text[:2], fault.Escaped(text[:2]), "nothing to escape")
	require.Equal(t, "a\n\tb\xff", string(fault.Escaped([]byte("a\n\tb\xff"))), "white space, and no character")
	require.Equal(t, "�x�", fault.Printable("\u202ex\u009b"))
}
