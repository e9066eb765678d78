package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassRemedyIsOneCommand(t *testing.T) {
	require.Equal(t, []string{"cdc-outbox row pass 018f-a --reason '…'"}, PassRemedy("018f-a", "p").Commands)
	require.Equal(t, []string{"cdc-outbox row pass p --reason '…'"}, PassRemedy("", "p").Commands)
	require.Equal(t, []string{`cdc-outbox row pass '$(rm) '\''x' --reason '…'`}, PassRemedy("$(rm) 'x", "p").Commands)
	require.Equal(t, []string{"cdc-outbox row pass '--skip' --reason '…'"}, PassRemedy("--skip", "p").Commands)
	for _, id := range []string{"a\nb", "a\x1b[1m", "\xff", "a\x00"} {
		require.Equal(t, []string{"cdc-outbox row pass p --reason '…'"}, PassRemedy(id, "p").Commands, "%q", id)
	}
}
