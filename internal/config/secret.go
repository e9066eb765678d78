package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// masked is shown in place of a secret.
const masked = "***"

// maxSecretFile bounds the bytes that are read from a secret's file: a wrong path must not load a disk image.
const maxSecretFile = 64 << 10

// Secret is a text that can be read but not printed: every way to format it gives "***", or the name of its file.
// Its zero value is the empty secret.
type Secret struct {
	literal string
	path    string
}

// newSecret takes the form of a secret in the configuration: @path reads it from a file, @@ at the start is a literal
// @, and anything else is the secret.
func newSecret(s string) Secret {
	if rest, ok := strings.CutPrefix(s, "@"); ok && rest != "" {
		if strings.HasPrefix(rest, "@") {
			return Secret{literal: rest}
		}
		return Secret{path: rest}
	}
	return Secret{literal: s}
}

// IsSet reports whether there is a secret or a file to read it from.
func (s Secret) IsSet() bool { return s.literal != "" || s.path != "" }

// Read returns the secret. A file is read at each call, without the line feed at its end: call Read for each
// connection, so that a rotated password is used. The error names the file and never its content.
func (s Secret) Read() (string, error) {
	if s.path == "" {
		return s.literal, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxSecretFile {
		return "", fmt.Errorf("%s is larger than %d KiB, too large for a secret", s.path, maxSecretFile>>10)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", s.path)
	}
	return text, nil
}

// String returns "***", or @ and the name of the file, or nothing for the empty secret.
func (s Secret) String() string {
	switch {
	case s.path != "":
		return "@" + s.path
	case s.literal != "":
		return masked
	default:
		return ""
	}
}

// Format implements fmt.Formatter, so that %#v and %+v do not look inside either.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML encoders use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// secret checks that a secret in a file can be read.
func (l *loader) secret(f Field, c *Config) {
	if _, err := secretOf(c, f).Read(); err != nil {
		l.fail(f.Key, "", "cannot be read: %s", err.Error())
	}
}

func secretOf(c *Config, f Field) Secret {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index).Interface().(Secret)
}
