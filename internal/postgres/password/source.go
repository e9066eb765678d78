package password

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

const (
	// most bounds a password: a wrong path must not load a disk image.
	most = 64 << 10
	// mostSaid bounds what is repeated of a command's complaint.
	mostSaid = 500
	// patience is the default Timeout.
	patience = 10 * time.Second
)

// password asks the source. Its errors are *fault.Error and never hold the source's output.
func (s Source) password(ctx context.Context, to *pgconn.Config) (string, error) {
	if s.File != "" {
		return s.read()
	}
	return s.run(ctx, to)
}

func (s Source) read() (string, error) {
	failed := func(err error) error {
		return (&fault.Error{Kind: fault.Retry, Object: "postgres.password_file", Err: err}).With(
			fault.Do("Let what writes the file write a password into it that this process may read."))
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", failed(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", failed(err)
	}
	password, err := trimmed(text)
	if err != nil {
		return "", failed(fmt.Errorf("%s %w", s.File, err))
	}
	return password, nil
}

// trimmed takes the line feed at the end away.
func trimmed(text []byte) (string, error) {
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(text) > most:
		return "", fmt.Errorf("gives more than %d KiB, which is not a password", most>>10)
	case password == "":
		return "", errors.New("gives nothing")
	case strings.ContainsAny(password, "\x00\r\n"):
		return "", errors.New("gives more than one line")
	}
	return password, nil
}

// run runs the command. It learns from libpq's variables for which connection the password is.
func (s Source) run(ctx context.Context, to *pgconn.Config) (string, error) {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out, complaint bounded
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Env = append(os.Environ(), "PGHOST="+to.Host, fmt.Sprintf("PGPORT=%d", to.Port), "PGUSER="+to.User,
		"PGDATABASE="+to.Database)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second // for processes that the command started and left
	err := cmd.Run()
	if err == nil {
		password, err := trimmed(out.kept.Bytes())
		if err != nil {
			return "", s.failed(fmt.Errorf("%s %w", s.Command[0], err))
		}
		return password, nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("has not ended within %s", timeout)
	}
	said := strings.TrimSpace(complaint.kept.String())
	if secret := strings.TrimSpace(out.kept.String()); secret != "" {
		said = strings.ReplaceAll(said, secret, "***")
	}
	if len(said) > mostSaid {
		said = "…" + said[len(said)-mostSaid:]
	}
	cause := fmt.Errorf("%s: %w", s.Command[0], err)
	if said != "" {
		cause = fmt.Errorf("%w: %w", cause, fault.OneLine(errors.New(said)))
	}
	return "", s.failed(cause)
}

func (s Source) failed(err error) error {
	f := &fault.Error{Kind: fault.Retry, Object: "postgres.password_command", Err: err}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		f.Kind = fault.Config
		return f.With(fault.Do("Name a program that exists and that this process may run."))
	}
	return f.With(fault.Do("Run the command as this process's user and correct what it says. It is run again for " +
		"each connection."))
}

// bounded keeps the beginning of what is written to it. The buffer is not embedded: os/exec would find its ReadFrom,
// which takes everything.
type bounded struct{ kept bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), max(0, most+1-b.kept.Len()))])
	return len(p), nil
}
