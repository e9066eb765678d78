package telemetry

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestLogEscapesControlCharacters: a terminal obeys them, and a role, a table or a client chooses the names.
//
// Bug (stream): U+009B and other control characters reached the log as they are. Cost: a name could control the
// terminal of the reader.
func TestLogEscapesControlCharacters(t *testing.T) {
	for _, format := range []string{FormatJSON, FormatConsole} {
		var out bytes.Buffer
		log, err := NewLogger(&out, "info", format)
		require.NoError(t, err)
		const name = "a\u009b31mb\u007f\u0080\u009f\u00a0é\x1b\u202e\u2066\u200f"
		log.Info("said", zap.String("name", name))
		line := out.String()
		require.Contains(t, line, `a\u009b31mb\u007f\u0080\u009f`+"\u00a0é"+`\u001b\u202e\u2066\u200f`)
		if format == FormatJSON {
			var parsed struct{ Name string }
			require.NoError(t, json.Unmarshal(out.Bytes(), &parsed))
			require.Equal(t, name, parsed.Name)
		}
	}
}
