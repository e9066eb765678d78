package writers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each signature has its block on the page, and each block of a library has a signature.
func TestBlocks(t *testing.T) {
	known := map[string]bool{
		"calls":     true, // no library's
		"forwarder": true, // a table like Watermill's others
	}
	for _, s := range signatures {
		known[s.block] = true
		w := Of(s.tableIs, s.has)
		require.NotNil(t, w, s.block)
		require.Equal(t, blocks()[s.block], w, "another signature fits, too")
		require.True(t, strings.HasPrefix(w.Router, "router:\n"), w.Router)
		require.True(t, strings.HasSuffix(w.Router, "\n"))
		require.NotEmpty(t, w.Name)
		require.NotContains(t, w.Name, "\n")
	}
	for name := range blocks() {
		require.True(t, known[name], name)
	}
	require.Equal(t, "Watermill", blocks()["watermill"].Name)
}

func TestOfNone(t *testing.T) {
	for _, columns := range [][]string{
		nil,
		{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at"},
		{"id", "aggregatetype", "aggregateid", "type", "payload"},
		{"Id", "Version", "Name", "Group", "Content", "Retries", "Added", "ExpiresAt", "StatusName"}, // CAP's inbox
	} {
		require.Nil(t, Of("outbox", columns), columns)
	}
	npm := []string{"aggregate_type", "message_type", "segment", "concurrency", "locked_until", "started_attempts"}
	require.Nil(t, Of("inbox", npm))
	require.NotNil(t, Of("outbox", npm))
}
