package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestCheckpointJudge(t *testing.T) {
	was := Checkpoint{SystemID: "1", Timeline: 1, Position: 10000}
	for name, test := range map[string]struct {
		server ServerPosition
		slot   Slot
		says   string
	}{
		"where it was left": {ServerPosition{SystemID: "1", Timeline: 1}, Slot{ConfirmedFlush: 10000}, ""},
		"behind":            {ServerPosition{SystemID: "1", Timeline: 1}, Slot{ConfirmedFlush: 1}, ""},
		"ahead": {
			ServerPosition{SystemID: "1", Timeline: 1}, Slot{ConfirmedFlush: 10001}, "re-created",
		},
		"another cluster": {
			ServerPosition{SystemID: "2", Timeline: 1}, Slot{ConfirmedFlush: 1}, "another cluster",
		},
		"promoted, copied too late": {
			ServerPosition{SystemID: "1", Timeline: 2}, Slot{ConfirmedFlush: 50000}, "promoted",
		},
		"promoted, at an earlier position": {ServerPosition{SystemID: "1", Timeline: 2}, Slot{ConfirmedFlush: 10}, ""},
		"promoted, synchronised": {
			ServerPosition{SystemID: "1", Timeline: 2}, Slot{ConfirmedFlush: 50000, Synced: true}, "",
		},
		"synchronised, not promoted": {
			ServerPosition{SystemID: "1", Timeline: 1}, Slot{ConfirmedFlush: 50000, Synced: true}, "re-created",
		},
	} {
		err := was.Judge(Objects{Slot: "s"}, test.server, test.slot)
		if test.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.says, name)
		require.Equal(t, fault.Operator, fault.KindOf(err), name)
	}
}
