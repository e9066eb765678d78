package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bug (monitor): The command offered for a halted row named an event id that cannot be pasted; an id or message that is
// not UTF-8 could not be listed. Cost: a row that could not be passed. Also: `TestHostileEventIDsAreBound` in
// `internal/relay/decision`.
func TestPassRemedyIsOneCommand(t *testing.T) {
	commands := func(id string) []string { return PassRemedy(id, "p", "no_key").Commands }
	require.Equal(t, []string{"cdc-outbox row pass 018f-a --reason no_key"}, commands("018f-a"))
	require.Equal(t, []string{"cdc-outbox row pass p --reason no_key"}, commands(""))
	require.Equal(t, []string{`cdc-outbox row pass '$(rm) '\''x' --reason no_key`}, commands("$(rm) 'x"))
	require.Equal(t, []string{"cdc-outbox row pass '--skip' --reason no_key"}, commands("--skip"))
	for _, id := range []string{"a\nb", "a\x1b[1m", "\xff", "a\x00"} {
		require.Equal(t, []string{"cdc-outbox row pass p --reason no_key"}, commands(id), "%q", id)
	}
}
