package wiring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestRotatedLogin: name and password are read for each login, also where their files are replaced by others.
//
// Bug (configuration): `kafka.sasl.username` from a file was read once. Cost: name and password rotated together:
// refused until a restart.
func TestRotatedLogin(t *testing.T) {
	dir := t.TempDir()
	name, password := filepath.Join(dir, "name"), filepath.Join(dir, "password")
	rotate := func(n, p string) {
		for path, text := range map[string]string{name: n, password: p} {
			require.NoError(t, os.WriteFile(path+".new", []byte(text+"\n"), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		}
	}
	rotate("first", "one")
	c, err := config.Load(config.Options{Settings: map[string]string{
		"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "@" + name, "kafka.sasl.password": "@" + password,
	}})
	require.NoError(t, err)
	k, err := Kafka(c)
	require.NoError(t, err)
	shows := func(want string) {
		t.Helper()
		shown, _, err := wire.Login{SASL: k.SASL}.Start(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, want, string(shown))
	}
	shows("\x00first\x00one")
	rotate("second", "two")
	shows("\x00second\x00two")
	require.NoError(t, os.Remove(name))
	_, _, err = wire.Login{SASL: k.SASL}.Start(t.Context(), "b")
	require.ErrorContains(t, err, name)
}
