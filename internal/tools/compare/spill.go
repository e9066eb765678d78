package compare

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// buckets is how many files the entries are spread over: 100 million events make files of some 100 MB.
const buckets = 64

// spill spreads fixed-size entries over files by a hash, so that one at a time can be looked at in memory.
type spill[T any] struct {
	path    string
	files   [buckets]*os.File // nil until something goes there
	writers [buckets]*bufio.Writer
	buf     []byte
}

func newSpill[T any](dir, name string) *spill[T] {
	return &spill[T]{path: filepath.Join(dir, name)}
}

func (s *spill[T]) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (s *spill[T]) add(hash uint64, entry T) error {
	i := hash % buckets
	if s.files[i] == nil {
		f, err := os.OpenFile(fmt.Sprintf("%s-%02d", s.path, i), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		s.files[i], s.writers[i] = f, bufio.NewWriter(f)
	}
	var err error
	if s.buf, err = binary.Append(s.buf[:0], binary.LittleEndian, &entry); err != nil {
		return err
	}
	_, err = s.writers[i].Write(s.buf)
	return err
}

// each calls f with all entries of one file after the other, in the order they were added.
func (s *spill[T]) each(f func([]T) error) error {
	var zero T
	size := binary.Size(&zero)
	for i, file := range s.files {
		if file == nil {
			continue
		}
		if err := s.writers[i].Flush(); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		raw, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		entries := make([]T, len(raw)/size)
		if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, entries); err != nil {
			return err
		}
		if err := f(entries); err != nil {
			return err
		}
	}
	return nil
}
