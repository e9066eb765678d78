package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bug (monitor): The command offered for a halted row named an event id that cannot be pasted; an id or message that is
// not UTF-8 could not be listed. Cost: a row that could not be passed. Also: `TestHostileEventIDsAreBound` in
// `internal/relay/decision`.
func TestPassRemedyIsOneCommand(t *testing.T) {
	require.Equal(t, []string{"cdc-outbox row pass 018f-a --reason '…'"}, PassRemedy("018f-a", "p").Commands)
	require.Equal(t, []string{"cdc-outbox row pass p --reason '…'"}, PassRemedy("", "p").Commands)
	require.Equal(t, []string{`cdc-outbox row pass '$(rm) '\''x' --reason '…'`}, PassRemedy("$(rm) 'x", "p").Commands)
	require.Equal(t, []string{"cdc-outbox row pass '--skip' --reason '…'"}, PassRemedy("--skip", "p").Commands)
	for _, id := range []string{"a\nb", "a\x1b[1m", "\xff", "a\x00"} {
		require.Equal(t, []string{"cdc-outbox row pass p --reason '…'"}, PassRemedy(id, "p").Commands, "%q", id)
	}
}
