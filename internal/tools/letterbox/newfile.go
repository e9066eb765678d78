package letterbox

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// NewFile is a file that gets its name when it is whole and on the disk. End it with Finish or Abort. Only its owner
// may read it: it holds payloads.
type NewFile struct {
	io.Writer
	file *os.File
	path string
}

// CreateFile begins a file. One of that name must not be there: it may hold the marks of retries.
func CreateFile(path string) (*NewFile, error) {
	if err := absent(path); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".partial-")
	if err != nil {
		return nil, fault.Usage("--to: the file cannot be made: "+err.Error(), "name a file in a directory that exists")
	}
	return &NewFile{Writer: f, file: f, path: path}, nil
}

func absent(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fault.Usage("--to: "+path+" exists already, and nothing is overwritten", "name a new file")
	}
	return nil
}

// Finish gives the file its name. It is on the disk when Finish returns nil.
func (f *NewFile) Finish() error {
	if err := errors.Join(f.file.Sync(), f.file.Close()); err != nil {
		return unwritten(err)
	}
	if err := absent(f.path); err != nil {
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return unwritten(err)
	}
	dir, err := os.Open(filepath.Dir(f.path)) // fsync(2): syncing a file does not bring its name to the disk
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}

// Abort removes the partial file. After Finish it does nothing.
func (f *NewFile) Abort() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}
