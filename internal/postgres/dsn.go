package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// CheckDSN judges a connection string without connecting. It leaves out the error of the parser, which quotes the
// string and masks the password only if it finds it.
func CheckDSN(dsn string) error {
	parsed, err := pgconn.ParseConfig(dsn)
	var file *fs.PathError
	switch {
	case err == nil && strings.Contains(strings.ToLower(parsed.Host+parsed.User+parsed.Database), "password="):
		return errors.New("has a password in the value of another keyword; write a plain space in front of password=")
	case err == nil && strings.Contains(parsed.Host, "@"): // and the text before it is the end of the password
		return errors.New("has an @ in the host; write an @ in the password of a URL as %40")
	case err == nil:
		return nil
	case errors.As(err, &file):
		return fmt.Errorf("names the file %s, which cannot be read: %w", file.Path, file.Err)
	default:
		return errors.New("is neither keyword=value pairs nor a postgres:// URL; " +
			"in a URL, characters such as @ : / ? # % in the password are written as %40 %3A %2F %3F %23 %25")
	}
}
