package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Writer writes one file. End it with Finish or Abort.
type Writer struct {
	dir, name string
	file      *os.File
	sum       hash.Hash
	bytes     counter
	zstd      *zstd.Encoder
	text      *bufio.Writer
	json      *json.Encoder
	manifest  Manifest
	row       []any
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Create begins a file, which gets its name, with Suffix, only in Finish. One of that name must not be there.
func Create(dir, name string, h Header) (*Writer, error) {
	name += Suffix
	if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, &os.PathError{Op: "create", Path: filepath.Join(dir, name), Err: os.ErrExist})
	}
	f, err := os.CreateTemp(dir, ".partial-")
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, name: name, file: f, sum: sha256.New()}
	w.zstd, err = zstd.NewWriter(io.MultiWriter(f, w.sum, &w.bytes), zstd.WithEncoderConcurrency(1))
	if err == nil {
		w.text = bufio.NewWriter(w.zstd)
		w.json = json.NewEncoder(w.text)
		w.json.SetEscapeHTML(false)
		h.Format = Format
		err = w.json.Encode(h)
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// encoded is a text that JSON cannot hold.
type encoded struct {
	Base64 []byte `json:"base64"`
}

// Write appends a row. It keeps nothing of it.
func (w *Writer) Write(row pgoutput.Tuple, key Key) error {
	w.row = w.row[:0]
	for _, v := range row {
		switch {
		case v.Kind == pgoutput.Null:
			w.row = append(w.row, nil)
		case utf8.Valid(v.Data):
			w.row = append(w.row, string(v.Data))
		default:
			w.row = append(w.row, encoded{v.Data})
		}
	}
	if w.manifest.Rows == 0 {
		w.manifest.First = &key
	}
	w.manifest.Rows++
	w.manifest.Last = &key
	return w.json.Encode(w.row)
}

// Size is how much has been written to the file so far.
func (w *Writer) Size() int64 { return int64(w.bytes) }

// Finish has everything on the disk, under its name, when it returns nil.
func (w *Writer) Finish() (Manifest, error) {
	err := w.json.Encode(w.manifest)
	err = errors.Join(err, w.text.Flush(), w.zstd.Close(), w.file.Sync())
	if err != nil {
		w.Abort()
		return Manifest{}, err
	}
	w.manifest.File, w.manifest.Bytes, w.manifest.SHA256 = w.name, int64(w.bytes), hex.EncodeToString(w.sum.Sum(nil))
	text, err := json.Marshal(w.manifest)
	// The manifest comes first: a manifest alone is not an archive, but an archive without one cannot be read, and
	// makes every command fail that is given the directory.
	if err == nil {
		err = writeFile(w.dir, w.name+ManifestSuffix, append(text, '\n'))
	}
	if err != nil {
		w.Abort()
		return Manifest{}, err
	}
	if err = closeAndRename(w.file, filepath.Join(w.dir, w.name)); err == nil {
		err = syncDirectory(w.dir)
	}
	return w.manifest, err
}

// Abort removes the partial file.
func (w *Writer) Abort() {
	if w.zstd != nil {
		_ = w.zstd.Close()
	}
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}

func writeFile(dir, name string, text []byte) error {
	f, err := os.CreateTemp(dir, ".partial-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync()); err != nil {
		_ = f.Close()
		return errors.Join(err, os.Remove(f.Name()))
	}
	return closeAndRename(f, filepath.Join(dir, name))
}

// closeAndRename closes a file that is on the disk and gives it its name.
func closeAndRename(f *os.File, path string) error {
	err := f.Close()
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// syncDirectory brings the names to the disk (fsync(2): syncing a file does not).
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
