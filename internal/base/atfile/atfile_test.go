package atfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(path, []byte(" a b\n"), 0o600))
	for value, want := range map[string]string{"": "", " x@y ": " x@y ", "@" + path: "a b"} {
		got, err := Read(value)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, value := range []string{"@", "@" + path + "x"} {
		_, err := Read(value)
		require.Error(t, err)
	}
}
