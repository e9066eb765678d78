package scratch

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func directories() int {
	if testing.Short() {
		return 50
	}
	return 300
}

// TestSweepSparesLivingOwners: other runs sweep while directories are made and used, and remove those only whose owner
// has ended.
func TestSweepSparesLivingOwners(t *testing.T) {
	base := t.TempDir()
	done := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 4 {
		sweepers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					sweep(base)
				}
			}
		})
	}
	var living []*Dir
	for range directories() {
		d, err := newDir(base, "x")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(d.Join("file"), nil, 0o600))
		living = append(living, d)
	}
	close(done)
	sweepers.Wait()
	orphan, err := newDir(base, "x")
	require.NoError(t, err)
	require.NoError(t, orphan.lock.Close()) // as the end of its owner does
	sweep(base)
	require.NoDirExists(t, orphan.Path)
	for _, d := range living {
		require.FileExists(t, d.Join("file"))
		require.NoError(t, d.Remove())
	}
}
