// Package rabbitserver runs a real RabbitMQ server, alone, with the plugin of consistent-hash exchanges.
package rabbitserver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// sbin is the directory in which Debian's package has the server; its wrappers in /usr/sbin insist on a user.
const sbin = "/usr/lib/rabbitmq/bin/"

// patience is how long the server may take to start on a busy machine.
const patience = 2 * time.Minute

// Server is a server that can be killed and started again at its address, with its files.
type Server struct {
	dir        *scratch.Dir
	epmd, erl  *child.Child
	port, dist int
	names      int // port of the name service, which is the server's own
}

// Start starts a server. Where there is none the test is left out, in CI as well: whether the tests hold on a busy
// machine is being tried. Close it.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a server takes seconds to start")
	}
	if _, err := os.Stat(sbin + "rabbitmq-server"); err != nil {
		tb.Skip("no RabbitMQ found: apt-get install --no-install-recommends rabbitmq-server")
	}
	dir, err := scratch.NewDir("rabbitmq")
	require.NoError(tb, err)
	s := &Server{dir: dir}
	for _, p := range []*int{&s.port, &s.dist, &s.names} {
		*p, err = port.Free()
		require.NoError(tb, err)
	}
	plugins := []byte("[rabbitmq_consistent_hash_exchange].\n")
	require.NoError(tb, os.WriteFile(dir.Join("enabled_plugins"), plugins, 0o600))
	require.NoError(tb, os.WriteFile(dir.Join("rabbitmq.conf"), fmt.Appendf(nil,
		"listeners.tcp.local = 127.0.0.1:%d\nheartbeat = 10\nmax_message_size = 4194304\n"+
			"disk_free_limit.absolute = 10MB\nvm_memory_high_watermark.absolute = 1GB\n", s.port), 0o600))
	s.Up(tb)
	return s
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir.Path
	node := "RABBITMQ_NODENAME=outbox" + strconv.Itoa(s.port) + "@localhost"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir.Path, "LANG=C.UTF-8", node,
		"ERL_EPMD_PORT=" + strconv.Itoa(s.names), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(s.dist), "RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_CONFIG_FILE=" + s.dir.Join("rabbitmq"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.dir.Join("enabled_plugins"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_MNESIA_BASE=" + s.dir.Join("mnesia"),
		"RABBITMQ_LOG_BASE=" + s.dir.Join("log"), "RABBITMQ_PID_FILE=" + s.dir.Join("pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
	}
	return cmd
}

// Up starts the server and waits until it takes connections.
func (s *Server) Up(tb testing.TB) {
	tb.Helper()
	var err error
	if s.epmd == nil {
		s.epmd, err = child.Start(s.command("epmd", "-port", strconv.Itoa(s.names)), syscall.SIGKILL)
		require.NoError(tb, err)
	}
	log, err := os.OpenFile(s.dir.Join("output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(tb, err)
	defer log.Close()
	cmd := s.command(sbin + "rabbitmq-server")
	cmd.Stdout, cmd.Stderr = log, log
	s.erl, err = child.Start(cmd, syscall.SIGKILL)
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := amqp.DialConfig(s.URL(), amqp.Config{Locale: "en_US", Dial: amqp.DefaultDial(5 * time.Second)})
		if err == nil {
			require.NoError(tb, conn.Close())
			return
		}
		if ctx.Err() != nil || !s.erl.Running() {
			text, _ := os.ReadFile(s.dir.Join("output"))
			tb.Fatalf("RabbitMQ does not start: %v\n%s", err, text[max(0, len(text)-4000):])
		}
		time.Sleep(100 * time.Millisecond) //waits:ok a server that starts says nothing
	}
}

// Kill ends the server at once; what it has confirmed is in its files. But RabbitMQ 3.10 writes its list of quorum
// queues some time after it has declared one, so a test's queues are given that time.
func (s *Server) Kill() {
	time.Sleep(2 * time.Second) //waits:ok the server says nothing when it has written the list
	s.erl.Kill()
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	for _, c := range []*child.Child{s.erl, s.epmd} {
		if c != nil {
			c.Kill()
		}
	}
	return s.dir.Remove()
}

// Addr is the address of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address with the login that RabbitMQ has at first.
func (s *Server) URL() string { return "amqp://guest:guest@" + s.Addr() }

// Control runs rabbitmqctl.
func (s *Server) Control(tb testing.TB, args ...string) string {
	tb.Helper()
	cmd := s.command(sbin+"rabbitmqctl", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(tb, err, "rabbitmqctl %s: %s", strings.Join(args, " "), stderr.String())
	return string(out)
}

// Channel returns a channel of a new connection, which ends with the test.
func (s *Server) Channel(tb testing.TB) *amqp.Channel {
	tb.Helper()
	conn, err := amqp.Dial(s.URL())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(tb, err)
	return ch
}

// Messages takes what is in a queue, in its order, until it is empty. A queue may have no leader yet after a start.
//
// Each message is acknowledged: with automatic acknowledgement a queue of a busy server may have sent a window of 2,000
// messages that arrives after the consumer has ended, and is lost.
func (s *Server) Messages(tb testing.TB, queue string) (all []amqp.Delivery) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		ch := s.Channel(tb)
		require.NoError(tb, ch.Qos(500, 0, false))
		consumed, err := ch.Consume(queue, "all", false, false, false, false, nil)
		take := func(m amqp.Delivery) {
			if err = m.Ack(false); err == nil {
				all = append(all, m)
			}
		}
		for more := err == nil; more && err == nil; {
			select {
			case m, ok := <-consumed:
				if more = ok; ok {
					take(m)
				}
			case <-time.After(300 * time.Millisecond): // the rest is asked for
				more = false
			}
		}
		if err == nil {
			err = ch.Cancel("all", false)
			for m := range consumed {
				take(m)
			}
		}
		if err == nil {
			require.NoError(tb, ch.Close()) // what was sent after the end of the consumer is in the queue again
			ch = s.Channel(tb)
		}
		for ok := true; ok && err == nil; {
			var m amqp.Delivery
			if m, ok, err = ch.Get(queue, true); ok {
				all = append(all, m)
			}
		}
		if err == nil {
			return all
		}
		require.True(tb, time.Now().Before(deadline), "%v", err)
	}
}
