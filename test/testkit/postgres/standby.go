package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// Standby starts a streaming standby of the server, under the name that its physical slot, made here, and its
// application have. The server is stopped and started again for the copy of its data, since not every distribution of
// the binaries has pg_basebackup. Like that, the copy holds no slots, unless keepSlots. Close the standby before the
// server.
func (s *Server) Standby(ctx context.Context, name string, keepSlots bool,
	settings map[string]string,
) (*Server, error) {
	if err := s.Exec(ctx, "postgres", fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s', true)",
		name)); err != nil {
		return nil, err
	}
	if err := s.Stop(ctx, Fast); err != nil {
		return nil, err
	}
	dir, err := scratch.NewDataDir("postgres")
	if err != nil {
		return nil, err
	}
	c := &Server{bin: s.bin, opts: s.opts, who: s.who, dir: dir}
	c.opts.Settings = maps.Clone(s.opts.Settings)
	if c.opts.Settings == nil {
		c.opts.Settings = map[string]string{}
	}
	maps.Copy(c.opts.Settings, map[string]string{
		"hot_standby": "on", "hot_standby_feedback": "on", "primary_slot_name": name, "synchronized_standby_slots": "",
		"primary_conninfo": fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres application_name=%s",
			s.port, name),
	})
	if s.Major() < 17 {
		delete(c.opts.Settings, "synchronized_standby_slots")
	}
	maps.Copy(c.opts.Settings, settings)
	err = c.copyOf(s, keepSlots)
	if err == nil {
		c.port, err = port.Free()
	}
	if err := errors.Join(err, s.Start(ctx)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (s *Server) copyOf(primary *Server, keepSlots bool) error {
	home := s.dir.Join("home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	if err := s.who.own(home); err != nil {
		return err
	}
	if out, err := s.who.command(home, "cp", "-a", primary.DataDir(), s.DataDir()).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the server's data: %w: %s", err, out)
	}
	signal := filepath.Join(s.DataDir(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if err := s.who.own(signal); err != nil {
		return err
	}
	slots, err := filepath.Glob(filepath.Join(s.DataDir(), "pg_replslot", "*"))
	for _, slot := range slots {
		if !keepSlots {
			err = errors.Join(err, os.RemoveAll(slot))
		}
	}
	return err
}

// Promote makes a standby a primary. It may be repeated: the session in which pg_promote waits ends when the server
// restarts its processes, and the promotion goes on.
func (s *Server) Promote(ctx context.Context) error {
	return s.Exec(ctx, "postgres", "SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote() END")
}
