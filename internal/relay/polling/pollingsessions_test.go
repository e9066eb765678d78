package polling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

func TestMaySessionPoll(t *testing.T) {
	other, long := identifier.Table{Schema: "public", Name: "outbox_2"},
		identifier.Table{Schema: "s", Name: strings.Repeat("é", 31)}
	for name, c := range map[string]struct {
		session string
		want    bool
	}{
		"its own":                {sessionOf([]identifier.Table{theTable}), true},
		"one of several":         {sessionOf([]identifier.Table{other, theTable}), true},
		"another's":              {sessionOf([]identifier.Table{other}), false},
		"cut, so unknown":        {sessionOf([]identifier.Table{long, theTable}), true},
		"the listener":           {sessionName + " listener", false},
		"one that only looks":    {"cdc-outbox look", false},
		"the log's, of any slot": {"cdc-outbox/pollings", false},
	} {
		require.LessOrEqual(t, len(c.session), mostOfName, name)
		require.Equal(t, c.want, maySessionPoll(c.session, theTable), name)
	}
}
