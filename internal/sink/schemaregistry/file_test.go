package schemaregistry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestFile(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "ids.json"), URL: "https://registry"}
	load := func(f File) []Known {
		t.Helper()
		all, err := f.Load(t.Context())
		require.NoError(t, err)
		return all
	}
	require.Empty(t, load(f), "there is no file")
	want := []Known{{UnresolvedSchema: latest, ID: 8}, {UnresolvedSchema: orders, ID: 7}}
	require.NoError(t, f.Save(t.Context(), want[:1]))
	require.NoError(t, f.Save(t.Context(), want))
	require.Equal(t, want, load(f))
	require.Empty(t, load(File{Path: f.Path, URL: "https://another"}), "ids of another registry")
	beside, err := os.ReadDir(filepath.Dir(f.Path))
	require.NoError(t, err)
	require.Len(t, beside, 1)

	text, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	for _, bad := range []string{"", "x", string(text[:len(text)/2]), `[1]`} {
		require.NoError(t, os.WriteFile(f.Path, []byte(bad), 0o600))
		require.Empty(t, load(f), bad)
	}
	edited := strings.NewReplacer(`"version":3`, `"version":-7`, `"id":8`, `"id":-1`).Replace(string(text))
	require.NoError(t, os.WriteFile(f.Path, []byte(edited), 0o600))
	require.Empty(t, load(f), "what no registry says")
	require.NoError(t, f.Save(t.Context(), want))
	require.Equal(t, want, load(f), "a file that was of no use is replaced")

	f.Path = filepath.Join(f.Path, "below a file")
	_, err = f.Load(t.Context())
	require.Equal(t, fault.Operator, fault.KindOf(err))
	err = f.Save(t.Context(), want)
	require.ErrorContains(t, err, "router.registry.cache")
}
