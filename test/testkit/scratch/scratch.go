// Package scratch hands out directories to test servers: temporary ones that vanish even when the test was killed, and
// one cache that outlives it.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// prefix marks our directories under the temporary directory. One that is being made has another, so that no other run
// sweeps it away before it is locked.
const (
	prefix = "cdc-outbox-test-"
	making = "cdc-outbox-making-"
)

var sweepOnce sync.Once

// Dir is a temporary directory with an open lock file; the lock shows later runs that its owner lives.
type Dir struct {
	Path string
	lock *os.File
}

// NewDir makes a directory that every user may enter, under the first of $TMPDIR, /tmp and /var/tmp that every user may
// reach: as root the servers run as another user. Directories whose owner was killed are removed, too.
func NewDir(name string) (*Dir, error) {
	base, err := base()
	if err != nil {
		return nil, err
	}
	sweepOnce.Do(func() { sweep(base) })
	return newDir(base, name)
}

// EnvMemory names a directory in memory for the data of servers, such as /dev/shm: they make and remove a thousand
// files each, which costs a file system on a disk as much CPU time as the tests themselves.
const EnvMemory = "CDC_OUTBOX_TEST_MEMORY"

var sweepMemoryOnce sync.Once

// NewDataDir is NewDir for the data of a server, in the directory that EnvMemory names, if it is set.
func NewDataDir(name string) (*Dir, error) {
	base := os.Getenv(EnvMemory)
	if base == "" {
		return NewDir(name)
	}
	sweepMemoryOnce.Do(func() { sweep(base) })
	return newDir(base, name)
}

func newDir(base, name string) (*Dir, error) {
	made, err := os.MkdirTemp(base, making+name+"-")
	if err != nil {
		return nil, err
	}
	lock, err := Lock(filepath.Join(made, ".lock"))
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(base, prefix+strings.TrimPrefix(filepath.Base(made), making))
	if err := os.Rename(made, path); err != nil { // the lock comes along
		return nil, err
	}
	return &Dir{Path: path, lock: lock}, nil
}

// Join appends elements to the directory's path.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.Path}, elem...)...)
}

// Remove deletes the directory with all it holds.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	if cerr := d.lock.Close(); err == nil {
		err = cerr
	}
	return err
}

// Lock takes an exclusive lock on a file, waiting for it as long as needed; closing the file releases it. The kernel
// releases it, too, when the process dies.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// CacheDir is where fetched servers and libraries stay between runs: $CDC_OUTBOX_TEST_CACHE, otherwise for root
// /var/cache/cdc-outbox (a server that runs as another user must be able to read it), otherwise the user's cache
// directory.
func CacheDir() (string, error) {
	dir := os.Getenv("CDC_OUTBOX_TEST_CACHE")
	switch {
	case dir != "":
	case os.Geteuid() == 0:
		dir = "/var/cache/cdc-outbox"
	default:
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory (%w): set CDC_OUTBOX_TEST_CACHE to a writable one", err)
		}
		dir = filepath.Join(user, "cdc-outbox")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache directory: %w: set CDC_OUTBOX_TEST_CACHE to a writable one", err)
	}
	return dir, nil
}

// Reachable reports whether a user who owns no directory of the path may enter path, and if not which directory bars
// it.
func Reachable(path string) (barrier string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, false
	}
	for p := path; ; p = filepath.Dir(p) {
		st, err := os.Stat(p)
		if err != nil || st.Mode().Perm()&0o001 == 0 {
			return p, false
		}
		if p == filepath.Dir(p) {
			return "", true
		}
	}
}

func base() (string, error) {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			continue
		}
		if _, ok := Reachable(dir); ok || os.Geteuid() != 0 {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no temporary directory that every user may enter: set TMPDIR to one (the servers do not " +
		"run as root)")
}

// sweep removes the directories of killed runs: those whose lock no process holds.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
			continue
		}
		path := filepath.Join(base, e.Name())
		f, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_RDWR, 0)
		if err != nil {
			continue // another user's
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		f.Close()
	}
}
