// Package postgres runs real PostgreSQL servers for tests and for the demo: installed ones or fetched ones, in a
// temporary directory, on a free port of 127.0.0.1, ended with the process that started them.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// Options of a server. The zero value is a server of the default version with logical decoding on and fsync off.
type Options struct {
	Version    string            // as Find takes it. Default "": see Find
	Settings   map[string]string // on top of the defaults, e.g. {"wal_sender_timeout": "5s"}
	WALSegment int               // MB, a power of two; 1 makes the loss of a slot a matter of seconds. Default 16
	Durable    bool              // fsync and full_page_writes on. Default off: a test's machine does not lose power
	HBA        []string          // lines of pg_hba.conf instead of trust for everyone on 127.0.0.1
}

// Mode is how Stop ends the server: the signals pg_ctl sends for its modes
// (https://www.postgresql.org/docs/current/server-shutdown.html).
type Mode syscall.Signal

const (
	Smart     = Mode(syscall.SIGTERM) // waits for the sessions to end
	Fast      = Mode(syscall.SIGINT)  // ends sessions, lets walsenders send what is left, writes a checkpoint
	Immediate = Mode(syscall.SIGQUIT) // no checkpoint: the next start recovers as after a crash
)

// Server is a PostgreSQL server. Its methods may be called from several goroutines, the methods that stop and start it
// from one at a time.
type Server struct {
	bin  Binaries
	opts Options
	who  *account
	dir  *scratch.Dir

	mu    sync.Mutex
	port  int
	child *child.Child
}

// Start makes a new cluster and starts a server on it. Close it.
func Start(ctx context.Context, opts Options) (*Server, error) {
	bin, err := Find(opts.Version)
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := scratch.NewDataDir("postgres")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, opts: opts, who: who, dir: dir}
	err = s.create()
	for try := 0; err == nil; try++ {
		if s.port, err = port.Free(); err != nil {
			break
		}
		err = s.Start(ctx)
		if err == nil {
			return s, nil
		}
		if try < 5 && s.logHas("could not bind") {
			err = os.Truncate(s.LogPath(), 0) // another process took the port meanwhile
		}
	}
	return nil, errors.Join(err, s.Close())
}

func (s *Server) create() error {
	home := s.dir.Join("home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	if err := s.who.own(home); err != nil {
		return err
	}
	template, err := s.template()
	if err != nil {
		return err
	}
	if err := errors.Join(s.copyData(template, s.DataDir()), s.identify()); err != nil {
		return err
	}
	if len(s.opts.HBA) == 0 {
		return nil
	}
	hba := strings.Join(s.opts.HBA, "\n") + "\n"
	return os.WriteFile(filepath.Join(s.DataDir(), "pg_hba.conf"), []byte(hba), 0o600)
}

// settings are the command line's: defaults first, so that Options.Settings win.
func (s *Server) settings() map[string]string {
	m := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(s.port), "unix_socket_directories": "",
		"wal_level": "logical", "max_wal_senders": "20", "max_replication_slots": "20",
		"max_prepared_transactions": "20", "max_connections": "100", "shared_buffers": "64MB",
		"log_min_messages": "info", "logging_collector": "off", "log_line_prefix": "%m [%p] ", "timezone": "UTC",
		"log_timezone": "UTC",
	}
	if !s.opts.Durable {
		maps.Copy(m, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	maps.Copy(m, s.opts.Settings)
	return m
}

// Start starts a stopped server again on the same data and port, and returns when it answers queries.
func (s *Server) Start(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := s.startOnce(ctx)
		// After a crash the last of the server's processes may take a moment to end.
		if err == nil || tries == 150 || !strings.Contains(err.Error(), "pre-existing shared memory block") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *Server) startOnce(ctx context.Context) error {
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.DataDir()}
	settings := s.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	cmd := s.who.command(s.dir.Join("home"), filepath.Join(s.bin.Dir, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	// SIGQUIT is the immediate shutdown: unlike SIGKILL it lets the postmaster take its children along and remove its
	// shared memory.
	c, err := child.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.child = c
	s.mu.Unlock()
	return s.awaitReady(ctx, c)
}

func (s *Server) awaitReady(ctx context.Context, c *child.Child) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		conn, err := s.Connect(ctx, "postgres")
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.Done():
			return fmt.Errorf("PostgreSQL %s ended while starting: %w; the end of its log:\n%s", s.bin.Version,
				cmp.Or(c.Err(), errors.New("exit code 0")), s.LogTail(15))
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL %s does not answer: %w; the end of its log:\n%s", s.bin.Version, err,
				s.LogTail(15))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the server and waits; a server that has ended already is not an error. With Fast it may take as long as a
// walsender's client refuses to confirm the last WAL, so give ctx a deadline: past it the server is left running and
// the error says so.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	c := s.process()
	if c == nil {
		return nil
	}
	if err := c.Signal(syscall.Signal(mode)); err != nil {
		return err
	}
	select {
	case <-c.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("PostgreSQL has not stopped: %w", ctx.Err())
	}
}

// Kill sends SIGKILL to every process of the server, as a crash of the machine would end them.
func (s *Server) Kill() {
	c := s.process()
	if c == nil || !c.Running() {
		return
	}
	// Freeze the postmaster first: it must neither start new children nor begin crash recovery when one is killed.
	_ = c.Signal(syscall.SIGSTOP)
	for _, pid := range children(c.PID()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.Kill()
}

// Restart stops the server in the given mode and starts it on the same data and port.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Stop(ctx, mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close stops the server at once and removes its data.
func (s *Server) Close() error {
	if c := s.process(); c != nil && c.Running() {
		_ = c.Signal(syscall.SIGCONT)
		_ = c.Signal(syscall.SIGQUIT)
		if !c.Wait(10 * time.Second) {
			s.Kill()
		}
	}
	return s.dir.Remove()
}

// Signal sends sig to the postmaster alone, e.g. SIGSTOP, SIGCONT, SIGHUP.
func (s *Server) Signal(sig syscall.Signal) error {
	c := s.process()
	if c == nil {
		return nil
	}
	return c.Signal(sig)
}

// SignalAll sends sig to the postmaster and all its children: SIGSTOP freezes the whole server.
func (s *Server) SignalAll(sig syscall.Signal) error {
	if err := s.Signal(sig); err != nil {
		return err
	}
	for _, pid := range children(s.PID()) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return err
		}
	}
	return nil
}

func (s *Server) process() *child.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// PID is the postmaster's process id, 0 before the first start.
func (s *Server) PID() int {
	if c := s.process(); c != nil {
		return c.PID()
	}
	return 0
}

// Port is the TCP port on 127.0.0.1; it stays over restarts.
func (s *Server) Port() int { return s.port }

// Addr is host and port.
func (s *Server) Addr() string { return port.Addr(s.port) }

// BinDir holds the server's programs (pg_ctl, pg_recvlogical where the distribution has it, ...).
func (s *Server) BinDir() string { return s.bin.Dir }

// Major is the server's major version.
func (s *Server) Major() int { return s.bin.Major() }

// Version is the server's version, e.g. "15.18".
func (s *Server) Version() string { return s.bin.Version }

// DataDir is the cluster's data directory.
func (s *Server) DataDir() string { return s.dir.Join("home", "data") }

// LogPath is the server's log file.
func (s *Server) LogPath() string { return s.dir.Join("postgres.log") }

// LogTail returns the last n lines of the log.
func (s *Server) LogTail(n int) string {
	b, _ := os.ReadFile(s.LogPath())
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (s *Server) logHas(text string) bool {
	b, _ := os.ReadFile(s.LogPath())
	return bytes.Contains(b, []byte(text))
}

// DSN is the connection URL of a database for the superuser postgres, without a password.
func (s *Server) DSN(database string) string { return s.DSNVia(s.Addr(), database) }

// DSNVia is the DSN of a database reached through another address, a proxy's.
func (s *Server) DSNVia(addr, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: addr, Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Connect opens a connection to a database as superuser. Close it.
func (s *Server) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.DSN(database))
}

// Exec runs SQL in a database over a connection of its own. Several statements are one implicit transaction: what may
// not run in one that has written (creating a slot) or in any (VACUUM) needs a call for itself.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	conn, err := s.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

// CreateDatabase creates an empty database.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.Exec(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
}

// DropDatabase ends what holds the database (sessions, replication slots and their walsenders) and drops it.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	conn, err := s.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		_, err = conn.Exec(ctx,
			`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active`, name)
		if err == nil {
			_, err = conn.Exec(ctx,
				`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1`, name)
		}
		if err == nil {
			_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		select { // a terminated walsender holds its slot a moment longer; a connector in the test may come back
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Configure changes settings of the running server (ALTER SYSTEM, then reload); settings given at the start cannot be
// changed this way.
func (s *Server) Configure(ctx context.Context, settings map[string]string) error {
	conn, err := s.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for name, value := range settings {
		sql := fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", pgx.Identifier{name}.Sanitize(),
			strings.ReplaceAll(value, "'", "''"))
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}
