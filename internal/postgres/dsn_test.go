package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckDSN: a password that would be taken for a part of a name, and shown with it.
func TestCheckDSN(t *testing.T) {
	const canary = "hunter2canary"
	for dsn, says := range map[string]string{
		"host=h password=" + canary:             "",
		"host=h\u00a0password=" + canary:        "a plain space",
		"host=h user=u\u00a0Password=" + canary: "a plain space",
		"postgres://u:p@" + canary + "@h/d":     "an @ in the host",
		"postgres://u:p/" + canary + "@h/d":     "characters such as",
	} {
		err := CheckDSN(dsn)
		if says == "" {
			require.NoError(t, err, dsn)
			continue
		}
		require.ErrorContains(t, err, says, dsn)
		require.NotContains(t, err.Error(), canary)
	}
}
