package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

func TestRoundTripAndDamage(t *testing.T) {
	dir := t.TempDir()
	header := Header{
		Schema: "public", Table: "outbox", OID: 7,
		Columns: []Column{{Name: "id", TypeOID: 2950, Modifier: -1}, {Name: `pay"load`, TypeOID: 25, Modifier: -1}},
	}
	w, err := Create(dir, "a", header)
	require.NoError(t, err)
	var rows []pgoutput.Tuple
	for _, text := range []string{"", "null", "{", "\u2028<&>\n\x00", "\xff\xfe", `{"base64":"eA=="}`} {
		rows = append(rows, pgoutput.Tuple{{Kind: pgoutput.Text, Data: []byte(text)}, {Kind: pgoutput.Null}})
	}
	for _, row := range rows {
		require.NoError(t, w.Write(row, Key{ID: string(row[0].Data)}))
	}
	path := filepath.Join(dir, "a"+Suffix)
	require.NoFileExists(t, path, "before it is whole it has no name")
	m, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, len(rows), m.Rows)
	_, err = Create(dir, "a", header)
	require.Error(t, err, "nothing is overwritten")

	var back []pgoutput.Tuple
	require.NoError(t, Read(path, func(rel *pgoutput.Relation, row pgoutput.Tuple) error {
		require.Equal(t, header.relation(), rel)
		back = append(back, row)
		return nil
	}))
	require.Len(t, back, len(rows))
	for i := range rows {
		require.Equal(t, string(rows[i][0].Data), string(back[i][0].Data))
		require.Equal(t, pgoutput.Null, back[i][1].Kind)
	}
	_, err = Verify(path)
	require.NoError(t, err)

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range whole {
		broken := append([]byte{}, whole...)
		broken[at] ^= 1
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		_, err = Verify(path)
		require.Error(t, err, "bit %d", at)
		require.NoError(t, os.WriteFile(path, whole[:at], 0o600))
		require.Error(t, Read(path, func(*pgoutput.Relation, pgoutput.Tuple) error { return nil }), "cut at %d", at)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left behind")
}

// What cannot be finished leaves no file that makes the directory's other archives unreadable.
//
// Bug (rows): An archive got its name before its manifest. Cost: after a full disk, replay and audit failed for the
// whole directory.
func TestUnfinishedManifest(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, "a", Header{Schema: "public", Table: "outbox"})
	require.NoError(t, err)
	require.NoError(t, w.Write(pgoutput.Tuple{}, Key{ID: "1"}))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"+Suffix+ManifestSuffix), 0o700)) // as with a full disk
	_, err = w.Finish()
	require.Error(t, err)
	files, err := Files(dir)
	require.NoError(t, err)
	require.Empty(t, files)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but what was there")
}
