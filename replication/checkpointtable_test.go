package replication

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/stretchr/testify/require"
)

func TestCheckpointJudge(t *testing.T) {
	was := Checkpoint{SystemID: "1", Timeline: 1, Position: 10000}
	for name, test := range map[string]struct {
		server Position
		slot   SlotInfo
		says   string
	}{
		"where it was left":          {Position{SystemID: "1", Timeline: 1}, SlotInfo{ConfirmedFlush: 10000}, ""},
		"behind":                     {Position{SystemID: "1", Timeline: 1}, SlotInfo{ConfirmedFlush: 1}, ""},
		"ahead":                      {Position{SystemID: "1", Timeline: 1}, SlotInfo{ConfirmedFlush: 10001}, "made anew"},
		"another cluster":            {Position{SystemID: "2", Timeline: 1}, SlotInfo{ConfirmedFlush: 1}, "another cluster"},
		"promoted, copied too late":  {Position{SystemID: "1", Timeline: 2}, SlotInfo{ConfirmedFlush: 50000}, "promoted"},
		"promoted, behind":           {Position{SystemID: "1", Timeline: 2}, SlotInfo{ConfirmedFlush: 10}, ""},
		"promoted, synchronised":     {Position{SystemID: "1", Timeline: 2}, SlotInfo{ConfirmedFlush: 50000, Synced: true}, ""},
		"synchronised, not promoted": {Position{SystemID: "1", Timeline: 1}, SlotInfo{ConfirmedFlush: 50000, Synced: true}, "made anew"},
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
