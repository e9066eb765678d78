package inventory

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Propose looks at the database and returns the file.
func Propose(ctx context.Context, dsn string, w Wishes) (string, error) {
	s, err := Look(ctx, dsn)
	if err != nil {
		return "", err
	}
	return s.File(w)
}

// Save writes the file. Without force it must not exist.
func Save(path, text string, force bool) error {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fault.Usage("--output: "+path+" exists", "Name another file, or overwrite it with --force.")
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fault.Usage("--output: "+err.Error(), "Name a file that can be written.")
	}
	return nil
}
