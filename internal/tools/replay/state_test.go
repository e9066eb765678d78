package replay

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Bug (letters): Two processes with one file of `replay --resume` both ran. Cost: each row twice, and a state that
// named fewer rows than were published.
func TestTwoRunsDoNotShareAState(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing is locked there")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "replay.state")
	first, err := openState(&Options{Run: "a", Resume: path})
	require.NoError(t, err)
	for range 2 { // also where the first one has replaced the file
		_, err = openState(&Options{Run: "b", Resume: path})
		require.ErrorIs(t, err, errLocked)
		require.Equal(t, fault.Operator, fault.KindOf(err))
		require.ErrorContains(t, err, path)
		first.Rows++
		require.NoError(t, first.save())
	}
	_, err = openState(&Options{Run: "b", Resume: path, Choice: Choice{Topic: "other"}})
	require.ErrorIs(t, err, errLocked)
	first.close()

	second, err := openState(&Options{Run: "b", Resume: path})
	require.NoError(t, err)
	require.Equal(t, "a", second.Run)
	require.EqualValues(t, 2, second.Rows)
	second.Done = true
	require.NoError(t, second.save())
	second.close()
	_, err = openState(&Options{Run: "b", Resume: path, Choice: Choice{Topic: "other"}})
	require.ErrorContains(t, err, "chose other rows")
	third, err := openState(&Options{Run: "b", Resume: path}) // the refused one has left no lock
	require.NoError(t, err)
	require.True(t, third.Done)
	third.close()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)

	none, err := openState(&Options{Run: "a"})
	require.NoError(t, err)
	none.close()
}
