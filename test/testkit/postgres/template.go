package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// template returns data that initdb has made, once for the machine, for the same binaries, account and size of the
// WAL's segments: a copy takes a seventh of initdb's CPU time. Processes that want the same data wait for each other.
func (s *Server) template() (string, error) {
	cache, err := scratch.CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "postgres", "data")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	name, err := s.templateName()
	if err != nil {
		return "", err
	}
	made := filepath.Join(root, name)
	lock, err := scratch.Lock(made + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(made); err == nil {
		return filepath.Join(made, "data"), nil
	}
	work, err := os.MkdirTemp(root, ".initdb-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := errors.Join(os.Chmod(work, 0o755), s.who.own(work), s.who.check(s.bin, work)); err != nil {
		return "", err
	}
	if err := errors.Join(s.initdb(work), forgetStatistics(filepath.Join(work, "data"))); err != nil {
		return "", err
	}
	return filepath.Join(made, "data"), os.Rename(work, made)
}

// forgetStatistics lets the counters of a copy begin with its first start, and not when the template was made: rates
// are judged by how long they were counted.
func forgetStatistics(data string) error {
	files, err := filepath.Glob(filepath.Join(data, "pg_stat", "*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// templateName changes with all that the data depends on, so also when the package of the server is updated.
func (s *Server) templateName() (string, error) {
	initdb := filepath.Join(s.bin.Dir, "initdb")
	st, err := os.Stat(initdb)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	fmt.Fprint(h, "without statistics", initdb, st.Size(), st.ModTime().UnixNano(), s.who)
	return fmt.Sprintf("%s-%016x-%d", s.bin.Version, h.Sum64(), s.opts.WALSegment), nil
}

func (s *Server) initdb(home string) error {
	args := []string{
		"-D", filepath.Join(home, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
	}
	if s.opts.WALSegment > 0 {
		args = append(args, fmt.Sprintf("--wal-segsize=%d", s.opts.WALSegment))
	}
	out, err := s.who.command(home, filepath.Join(s.bin.Dir, "initdb"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb of PostgreSQL %s: %w: %s", s.bin.Version, err, out)
	}
	return nil
}

// identify gives a copy of the template a system identifier of its own, as initdb does. It is at the beginning of
// the control file, whose checksum follows its other fields (src/include/catalog/pg_control.h), and in the header of
// the first page of each segment of the WAL (XLogLongPageHeaderData in src/include/access/xlog_internal.h).
func (s *Server) identify() error {
	const inSegment = 24
	id := binary.NativeEndian.AppendUint64(nil, uint64(rand.Int64())) //nolint:gosec // no secret, and not negative
	control := filepath.Join(s.DataDir(), "global", "pg_control")
	b, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	at, err := checksumAt(b)
	if err != nil {
		return err
	}
	copy(b, id)
	binary.NativeEndian.PutUint32(b[at:], crc32.Checksum(b[:at], castagnoli))
	if err := overwrite(control, b, 0); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(s.DataDir(), "pg_wal", "[0-9A-F]*"))
	for _, segment := range segments {
		err = errors.Join(err, overwrite(segment, id, inSegment))
	}
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumAt finds the checksum of a control file, whose fields each major version adds to.
func checksumAt(control []byte) (int, error) {
	for at := 64; at+4 <= min(len(control), 512); at += 4 {
		if crc32.Checksum(control[:at], castagnoli) == binary.NativeEndian.Uint32(control[at:]) {
			return at, nil
		}
	}
	return 0, errors.New("the control file of PostgreSQL has no checksum where expected")
}

func overwrite(path string, b []byte, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}
