package letterbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

type silent struct{}

func (silent) Say(string)                {}
func (silent) Step(progress.Step)        {}
func (silent) Wait(progress.Wait) func() { return func() {} }

// awkward are bytes that JSON holds only with care.
var awkward = [][]byte{
	nil, {}, []byte("null"), []byte(`{"base64":"eA=="}`), []byte("\u2028<&>\n\x00\uFFFD"), {0xff, 0xfe, '\n'},
}

func letterAt(offset int64, value []byte) *deadletter.Record {
	return &deadletter.Record{
		Partition: 1, Offset: offset, Timestamp: 1700000000000, Key: value, Value: value, Headers: []router.Header{
			{Key: "dlt-origin-topic", Value: []byte("orders")},
			{Key: "dlt-origin-partition", Value: []byte("2")},
			{Key: "dlt-origin-offset", Value: []byte{'1', byte('0' + offset)}},
			{Key: "dlt-group", Value: []byte("g")},
			{Key: "id", Value: []byte{'e', byte('0' + offset)}},
			{Key: "more", Value: value},
			{Key: "\xff", Value: value},
		},
	}
}

// written is a file of a letter for each awkward value.
func written(t *testing.T) []byte {
	t.Helper()
	var out []byte
	add := func(v any) {
		b, err := encode(v)
		require.NoError(t, err)
		out = append(out, b...)
	}
	add(header{Format: format, Topic: "orders.DLT", Written: time.Unix(1700000000, 0).UTC()})
	for i, value := range awkward {
		add(lineOf(letterAt(int64(i), value)))
	}
	sum := sha256.Sum256(out)
	n := int64(len(awkward))
	add(trailer{Records: n, Letters: n, SHA256: hex.EncodeToString(sum[:])})
	return out
}

func read(t *testing.T, text []byte) (*file, *deadletter.Ledger, error) {
	t.Helper()
	return readAt(t, filepath.Join(t.TempDir(), "letters.jsonl"), text)
}

// readAt is read for a test of hundreds of files: to make and remove a directory takes longer than to read a file.
func readAt(t *testing.T, path string, text []byte) (*file, *deadletter.Ledger, error) {
	t.Helper()
	_ = os.Remove(path) // ext4 flushes a file to the disk if it is overwritten
	require.NoError(t, os.WriteFile(path, text, 0o600))
	var ledger deadletter.Ledger
	f, err := openFile(t.Context(), path, true, &ledger, silent{})
	if err == nil {
		t.Cleanup(func() { _ = f.Close() })
	}
	return f, &ledger, err
}

func TestFileHoldsWhatTheTopicHeld(t *testing.T) {
	f, ledger, err := read(t, written(t))
	require.NoError(t, err)
	require.Equal(t, "orders.DLT", f.topic)
	entries := ledger.Entries()
	require.Len(t, entries, len(awkward))
	for i, e := range entries {
		got, err := f.letter(f.places[e])
		require.NoError(t, err)
		want, err := deadletter.Parse(letterAt(int64(i), awkward[i]))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.EqualValues(t, 1, e.Partition)
		require.EqualValues(t, i, e.Offset)
		ledger.Add(letterAt(int64(i), awkward[i]))
		require.Equal(t, 1, e.Copies, "the topic and the file have the same record")
	}
}

// stride is how far the places are from each other at which a file is damaged. All of them take seconds.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// A file that lacks a part, or has a wrong bit, gives no letter.
func TestDamagedFile(t *testing.T) {
	whole := written(t)
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	disk, err := os.Create(path) // one file for thousands of damages: a busy disk takes long to make one
	require.NoError(t, err)
	defer disk.Close()
	put := func(b []byte, at int) {
		_, err := disk.WriteAt(b, int64(at))
		require.NoError(t, err)
	}
	open := func() error {
		f, err := openFile(t.Context(), path, true, &deadletter.Ledger{}, silent{})
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	put(whole, 0)
	require.NoError(t, open())
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') // the line before the trailer ends here
	for at := 0; at < last; at += stride() {
		put([]byte{whole[at] ^ 1}, at)
		require.Error(t, open(), "bit at %d", at)
		put(whole[at:at+1], at)
	}
	require.NoError(t, open())
	for at := len(whole) - 1; at >= 0; at -= stride() {
		require.NoError(t, disk.Truncate(int64(at)))
		err := open()
		require.Error(t, err, "cut at %d", at)
		require.Equal(t, fault.Operator, fault.KindOf(err))
	}
	_, _, err = read(t, slices.Concat(whole, whole))
	require.ErrorContains(t, err, "not a mark", "two files are not one")
	_, err = openFile(t.Context(), filepath.Join(t.TempDir(), "none"), false, &deadletter.Ledger{}, silent{})
	require.Equal(t, fault.Config, fault.KindOf(err))
	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	_, err = openFile(ended, path, false, &deadletter.Ledger{}, silent{})
	require.ErrorIs(t, err, context.Canceled)
}

// Of a mark that a crash cut off nothing is believed, wherever the cut is, and the marks after it are read.
func TestMarksThatACrashCutOff(t *testing.T) {
	whole := written(t)
	f, ledger, err := read(t, whole)
	require.NoError(t, err)
	e := ledger.Entries()[0]
	mark := func(what deadletter.Mark) []*router.Record {
		return []*router.Record{e.MarkRecord("orders.DLT", "attempt", what, time.Now())}
	}
	require.NoError(t, f.note(mark(deadletter.Begun)))
	begun, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.NoError(t, f.note(mark(deadletter.Published)))
	published, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	path, again := filepath.Join(t.TempDir(), "letters.jsonl"), filepath.Join(t.TempDir(), "again.jsonl")
	for at := len(whole); at <= len(published); at++ {
		if edge := at == len(begun) || at == len(published); !edge && (at-len(whole))%stride() != 0 {
			continue
		}
		want := deadletter.Open
		switch {
		case at == len(published):
			want = deadletter.Retried
		case at >= len(begun):
			want = deadletter.Interrupted
		}
		f, ledger, err := readAt(t, path, published[:at])
		require.NoError(t, err)
		require.Equal(t, want, ledger.Entries()[0].State, "cut at %d", at)
		require.NoError(t, f.note(slices.Concat(mark(deadletter.Dismissal), mark(deadletter.Published))))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		_, ledger, err = readAt(t, again, text)
		require.NoError(t, err)
		require.Equal(t, deadletter.Retried, ledger.Entries()[0].State, "cut at %d, then marked again", at)
	}
}

func TestNewFileIsWholeOrAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	for _, finish := range []bool{false, true} {
		f, err := CreateFile(path)
		require.NoError(t, err)
		_, err = f.Write([]byte("x"))
		require.NoError(t, err)
		require.NoFileExists(t, path)
		if finish {
			require.NoError(t, f.Finish())
		}
		f.Abort()
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, left, map[bool]int{true: 1}[finish])
	}
	about, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, about.Mode().Perm())
	_, err = CreateFile(path)
	require.Equal(t, fault.Config, fault.KindOf(err), "nothing is overwritten")
	_, err = CreateFile(filepath.Join(path, "x"))
	require.Equal(t, fault.Config, fault.KindOf(err))
}
