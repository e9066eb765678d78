package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// CheckDSN judges a connection string without connecting. It leaves out the error of the parser, which quotes the
// string and masks the password only if it finds it.
func CheckDSN(dsn string) error {
	parsed, err := pgconn.ParseConfig(dsn)
	var file *fs.PathError
	switch {
	case err == nil && holdsPassword(parsed), errors.As(err, &file) && runTogether.MatchString(file.Path):
		return errors.New("has a password in the value of another keyword; write a plain space in front of password=")
	case err == nil && strings.Contains(parsed.Host, "@"): // and the text before it is the end of the password
		return errors.New("has an @ in the host; write an @ in the password of a URL as %40")
	case err == nil:
		if err := login.Libpq(parsed); err != nil {
			return parameterError{fmt.Errorf("has a parameter that cannot be used: %w", err)}
		}
		return nil
	case errors.As(err, &file):
		return fileError{fmt.Errorf("names the file %s, which cannot be read: %w", file.Path, file.Err)}
	case unusableFile(err):
		return fileError{fmt.Errorf("names a certificate or key that cannot be used: %w", errors.Unwrap(err))}
	case unusable(err) != "":
		return parameterError{errors.New("has a parameter that cannot be used: " + unusable(err))}
	default:
		return errors.New("is neither keyword=value pairs nor a postgres:// URL; " +
			"in a URL, characters such as @ : / ? # % in the password are written as %40 %3A %2F %3F %23 %25")
	}
}

// AtHost returns the connection string with another host and port, any kind of server welcome.
func AtHost(dsn, host, port string) string {
	for _, p := range [][2]string{{"host", host}, {"port", port}, {"hostaddr", ""}, {"target_session_attrs", "any"}} {
		dsn = login.WithParameter(dsn, p[0], p[1])
	}
	return dsn
}

// runTogether finds a password that another kind of space than the parser knows has made a part of the value before it.
var runTogether = regexp.MustCompile(`(?i)password\s*=`)

func holdsPassword(parsed *pgconn.Config) bool {
	for name, value := range parsed.RuntimeParams { // which the server is sent
		if name != "options" && runTogether.MatchString(value) {
			return true
		}
	}
	return runTogether.MatchString(parsed.Host + "\n" + parsed.User + "\n" + parsed.Database)
}

// fileError is about a file that a connection string names.
type fileError struct{ error }

// parameterError is about another parameter of a connection string.
type parameterError struct{ error }

// unusableFile reports whether the parser's error is about the content of a file (configTLS in pgconn's config.go).
// Such an error quotes nothing.
func unusableFile(err error) bool {
	cause := errors.Unwrap(err)
	return cause != nil && slices.ContainsFunc([]string{
		"unable to load cert: ", "unable to add CA", "failed to decode sslkey", "unable to decrypt key: ",
	}, func(prefix string) bool { return strings.HasPrefix(cause.Error(), prefix) })
}

// DSNFault is for a connection string that cannot be read. It leaves out the cause's text where that quotes the DSN:
// the parser masks a password only as best it can.
func DSNFault(dsn string) error {
	f := &fault.Error{
		Kind: fault.Config, Object: "postgres.dsn",
		Err:  errors.New("it is neither a libpq connection string nor a postgres:// URL"),
		Next: "Write it as postgres://user@host:5432/database or host=… port=… dbname=… user=….",
	}
	var file fileError
	var parameter parameterError
	switch err := CheckDSN(dsn); {
	case errors.As(err, &file):
		f.Err = fmt.Errorf("it %w", file)
		f.Next = "Let this process read the file, with a certificate and a key that belong together. Files are read " +
			"again for each connection."
	case errors.As(err, &parameter):
		f.Err, f.Next = fmt.Errorf("it %w", parameter), "Correct the parameter."
	}
	return f
}

// unusable is what the parser says of a parameter, without its value; empty where it could not take the string apart.
func unusable(err error) string {
	text, cause := err.Error(), errors.Unwrap(err)
	if cause != nil { // it may quote the value
		text = strings.TrimSuffix(text, " ("+cause.Error()+")")
	}
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	switch {
	case strings.HasPrefix(text, "failed to parse as"), text == "invalid port": // a / in a password ends up as that
		return ""
	case text == "failed to configure TLS" && cause != nil:
		return cause.Error()
	}
	what, _, _ := strings.Cut(text, ":")
	return what
}
