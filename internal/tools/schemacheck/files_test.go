package schemacheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// write makes files below a new directory, each with its name as text.
func write(t *testing.T, names ...string) string {
	dir := t.TempDir()
	for _, name := range names {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(name), 0o600))
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := write(t, "b/order.events-value.avsc", "a.proto", "b/c/z.v2.json", ".git/x.avsc", "README.md")
	files, err := Read([]string{dir}, "")
	require.NoError(t, err)
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimPrefix(f.Path, dir+"/")+" "+f.Subject+" "+f.Type+" "+f.Text)
	}
	require.Equal(t, []string{
		"a.proto a PROTOBUF a.proto",
		"b/order.events-value.avsc order.events-value AVRO b/order.events-value.avsc",
		"b/c/z.v2.json z.v2 JSON b/c/z.v2.json",
	}, got)

	files, err = Read([]string{filepath.Join(dir, "a.proto")}, "other-value")
	require.NoError(t, err)
	require.Equal(t, "other-value", files[0].Subject)
}

func TestReadRefuses(t *testing.T) {
	dir := write(t, "one.avsc", "two/one.proto", "other.txt", ".avsc")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long.json"), make([]byte, maxFile+1), 0o600))
	empty, many := t.TempDir(), t.TempDir()
	for i := range maxFiles + 1 {
		require.NoError(t, os.WriteFile(filepath.Join(many, fmt.Sprintf("%d.avsc", i)), nil, 0o600))
	}
	for name, c := range map[string]struct {
		paths   []string
		subject string
		err     string
	}{
		"nothing":           {paths: []string{empty}, err: "there is no file"},
		"no such file":      {paths: []string{"missing.avsc"}, err: "no such file"},
		"another ending":    {paths: []string{dir + "/other.txt"}, err: "ends neither in .avsc"},
		"no name":           {paths: []string{dir + "/.avsc"}, err: "has no name"},
		"too long":          {paths: []string{dir + "/long.json"}, err: "more than 4 MiB"},
		"too many":          {paths: []string{many}, err: "more than 1000 schemas"},
		"one subject twice": {paths: []string{dir + "/one.avsc", dir + "/two"}, err: "are both for subject one"},
		"a subject of two":  {paths: []string{dir + "/one.avsc", dir + "/two"}, subject: "x", err: "with one file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(c.paths, c.subject)
			require.ErrorContains(t, err, c.err)
			require.Equal(t, fault.Config.ExitCode(), fault.KindOf(err).ExitCode(), "of the command line")
		})
	}
}
