package polling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/replication"
)

func TestMaySessionPoll(t *testing.T) {
	other, long := replication.Table{Schema: "public", Name: "outbox_2"}, replication.Table{Schema: "s", Name: strings.Repeat("é", 31)}
	for name, c := range map[string]struct {
		session string
		want    bool
	}{
		"its own":                {sessionOf([]replication.Table{theTable}), true},
		"one of several":         {sessionOf([]replication.Table{other, theTable}), true},
		"another's":              {sessionOf([]replication.Table{other}), false},
		"cut, so nobody knows":   {sessionOf([]replication.Table{long, theTable}), true},
		"the listener":           {sessionName + " listener", false},
		"one that only looks":    {"cdc-outbox look", false},
		"the log's, of any slot": {"cdc-outbox/pollings", false},
	} {
		require.LessOrEqual(t, len(c.session), mostOfName, name)
		require.Equal(t, c.want, maySessionPoll(c.session, theTable), name)
	}
}
