package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bug (monitor): The command offered for a halted row named an event id that cannot be pasted; an id or message that is
// not UTF-8 could not be listed. Cost: a row that could not be passed. Also: `TestHostileEventIDsAreBound` in
// `internal/relay/decision`.
func TestPassRemedyIsOneCommand(t *testing.T) {
	require.Equal(t, []string{"cdc-outbox row pass 018f-a --reason too_large"}, PassRemedy("018f-a", "p", "too_large").Commands)
	require.Equal(t, []string{"cdc-outbox row pass p --reason too_large"}, PassRemedy("", "p", "too_large").Commands)
	require.Equal(t, []string{`cdc-outbox row pass '$(rm) '\''x' --reason too_large`}, PassRemedy("$(rm) 'x", "p", "too_large").Commands)
	require.Equal(t, []string{"cdc-outbox row pass '--skip' --reason too_large"}, PassRemedy("--skip", "p", "too_large").Commands)
	for _, id := range []string{"a\nb", "a\x1b[1m", "\xff", "a\x00"} {
		require.Equal(t, []string{"cdc-outbox row pass p --reason too_large"}, PassRemedy(id, "p", "too_large").Commands, "%q", id)
	}
}
