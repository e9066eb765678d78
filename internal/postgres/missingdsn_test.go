package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// TestAForgottenConnectionStringIsSaidToBe: libpq's defaults lead somewhere, and the silence there is not the fault.
//
// Bug (monitor): With no `postgres.dsn`, every command reported that some server does not answer, and `run` waited for
// ever. Cost: the most likely mistake of a newcomer, unnamed.
func TestAForgottenConnectionStringIsSaidToBe(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGSERVICEFILE"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	forgotten := func(err error) string {
		require.Error(t, err)
		require.Equal(t, fault.Config, fault.KindOf(err))
		return err.Error()
	}
	_, err := Connect(t.Context(), "", "test")
	text := forgotten(err)
	require.Contains(t, text, "postgres.dsn: it is not set (CDC_OUTBOX_POSTGRES_DSN); libpq's defaults led to ")
	require.Contains(t, text, "export CDC_OUTBOX_POSTGRES_DSN=")

	t.Setenv("PGHOST", dir)
	_, err = Connect(t.Context(), "", "test")
	require.Equal(t, fault.Retry, fault.KindOf(err), "the environment says where")
	t.Setenv("PGHOST", "")
	_, err = Connect(t.Context(), "host="+dir, "test")
	require.Equal(t, fault.Retry, fault.KindOf(err))
}
