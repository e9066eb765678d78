package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// Copy is the data of a server at one moment, as a snapshot of its disk has it, slots included.
type Copy struct{ dir *scratch.Dir }

// Copy stops the server in the given mode, copies its data and starts it again. Close the copy.
func (s *Server) Copy(ctx context.Context, mode Mode) (*Copy, error) {
	if err := s.Stop(ctx, mode); err != nil {
		return nil, err
	}
	dir, err := scratch.NewDataDir("copy")
	if err != nil {
		return nil, err
	}
	c := &Copy{dir}
	home := dir.Join("home")
	err = os.Mkdir(home, 0o755)
	if err == nil {
		err = s.who.own(home)
	}
	if err == nil {
		err = s.copyData(s.DataDir(), c.data())
	}
	if err := errors.Join(err, s.Start(ctx)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// PutBack replaces the server's data by the copy, as a restored snapshot does, and starts the server.
func (s *Server) PutBack(ctx context.Context, c *Copy) error {
	if err := s.Stop(ctx, Immediate); err != nil {
		return err
	}
	if err := s.replace(c); err != nil {
		return err
	}
	return s.Start(ctx)
}

// RecoverTo recovers the copy to a restore point with the log that the server has written since, as a recovery to a
// point in time does, and starts the server, on a new timeline.
func (s *Server) RecoverTo(ctx context.Context, c *Copy, restorePoint string) error {
	if err := s.Stop(ctx, Fast); err != nil {
		return err
	}
	archive := s.dir.Join("home", "archive")
	if err := s.copyData(filepath.Join(s.DataDir(), "pg_wal"), archive); err != nil {
		return err
	}
	if err := s.replace(c); err != nil {
		return err
	}
	settings, err := os.OpenFile(filepath.Join(s.DataDir(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(settings, "restore_command = 'cp %s/%%f %%p'\nrecovery_target_name = '%s'\n"+
		"recovery_target_action = 'promote'\n", archive, restorePoint)
	if err := errors.Join(err, settings.Close()); err != nil {
		return err
	}
	signal := filepath.Join(s.DataDir(), "recovery.signal")
	if err := errors.Join(os.WriteFile(signal, nil, 0o600), s.who.own(signal)); err != nil {
		return err
	}
	return s.Start(ctx)
}

func (s *Server) replace(c *Copy) error {
	if err := os.RemoveAll(s.DataDir()); err != nil {
		return err
	}
	return s.copyData(c.data(), s.DataDir())
}

func (s *Server) copyData(from, to string) error {
	if out, err := s.who.command(s.dir.Join("home"), "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the server's data: %w: %s", err, out)
	}
	return nil
}

func (c *Copy) data() string { return c.dir.Join("home", "data") }

// Close removes the copy.
func (c *Copy) Close() error { return c.dir.Remove() }
