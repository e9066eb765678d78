package pooler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// EnvPgBouncer names a pgbouncer to use instead of the pgbouncer on PATH, to try another version.
const EnvPgBouncer = "CDC_OUTBOX_TEST_PGBOUNCER"

// ErrNotInstalled is returned where there is no pgbouncer.
var ErrNotInstalled = errors.New("pgbouncer is not installed; apt-get install pgbouncer, or set " + EnvPgBouncer)

// Options are how a PgBouncer is configured. The server that it connects to must let every user in without a password.
type Options struct {
	Mode     string            // pool_mode: session or transaction
	Auth     string            // auth_type; default trust
	Password string            // of its only user, postgres
	Admins   string            // who may use its console
	Settings map[string]string // further ones
}

// PgBouncer is a running pgbouncer. Close it.
type PgBouncer struct {
	Version string // "1.18.0"
	port    int
	dir     *scratch.Dir
	child   *child.Child
}

// StartPgBouncer starts pgbouncer in front of the server at upstream.
func StartPgBouncer(ctx context.Context, upstream string, opts Options) (*PgBouncer, error) {
	bin, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, bin, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", bin, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	p := &PgBouncer{Version: strings.TrimPrefix(first, "PgBouncer ")}
	if p.dir, err = scratch.NewDir("pgbouncer"); err != nil {
		return nil, err
	}
	if err = p.start(ctx, bin, upstream, opts); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// findPgBouncer looks in /usr/sbin too, where Debian puts it and PATH often does not lead.
func findPgBouncer() (string, error) {
	if bin := os.Getenv(EnvPgBouncer); bin != "" {
		return bin, nil
	}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", ErrNotInstalled
}

func (p *PgBouncer) start(ctx context.Context, bin, upstream string, opts Options) error {
	host, target, err := net.SplitHostPort(upstream)
	if err != nil {
		return err
	}
	if p.port, err = port.Free(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\n", host, target, p.port)
	fmt.Fprintf(&b, "auth_type = %s\nauth_file = %s\npool_mode = %s\nadmin_users = %s\n", cmp.Or(opts.Auth, "trust"),
		p.dir.Join("users"), opts.Mode, opts.Admins)
	for name, value := range opts.Settings {
		fmt.Fprintf(&b, "%s = %s\n", name, value)
	}
	config := p.dir.Join("pgbouncer.ini")
	if err := os.WriteFile(config, []byte(b.String()), 0o644); err != nil {
		return err
	}
	users := fmt.Sprintf("\"postgres\" %q\n", opts.Password)
	if err := os.WriteFile(p.dir.Join("users"), []byte(users), 0o644); err != nil {
		return err
	}
	log, err := os.Create(p.dir.Join("log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(bin, config)
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr, err = unprivileged(); err != nil {
		return err
	}
	if p.child, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	return p.await(ctx)
}

// unprivileged: pgbouncer refuses to run as root.
func unprivileged() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
		errors.Join(uerr, gerr)
}

func (p *PgBouncer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", p.Addr())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.child.Done():
			return fmt.Errorf("pgbouncer ended while starting: %s", p.Log())
		case <-ctx.Done():
			return fmt.Errorf("pgbouncer does not listen: %w: %s", ctx.Err(), p.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Log is what it has printed.
func (p *PgBouncer) Log() string {
	b, err := os.ReadFile(p.dir.Join("log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Addr is what clients connect to.
func (p *PgBouncer) Addr() string { return port.Addr(p.port) }

// Close ends it and waits.
func (p *PgBouncer) Close() error {
	if p.child != nil {
		_ = p.child.Signal(syscall.SIGKILL) // it keeps nothing; SIGTERM waits for clients since 1.23
		<-p.child.Done()
	}
	return p.dir.Remove()
}
