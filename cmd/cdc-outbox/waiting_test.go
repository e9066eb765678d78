package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// mute is an address where connections are accepted and nothing is ever said.
func mute(t *testing.T) string {
	t.Helper()
	address, _ := muteFor(t)
	return address
}

// muteFor is mute, and says when the first connection has come.
func muteFor(t *testing.T) (address string, called <-chan struct{}) {
	t.Helper()
	first := make(chan struct{})
	came := sync.OnceFunc(func() { close(first) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			came()
		}
	}()
	return l.Addr().String(), first
}

// A broker that is down is waited for half a minute: a command that says nothing meanwhile looks as if it hung.
func TestCommandsSayWhatTheyWaitFor(t *testing.T) {
	db := testkit.Postgres(t)
	env := variables(t, db)
	host, port := deafAddress(t)
	down := host + ":" + port
	require.Equal(t, 0, invoke(t, append(env, "CDC_OUTBOX_KAFKA_BROKERS="+down), "setup", "--table").code)
	db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('order', 'k', 'created', '{}')`)
	for _, c := range []struct{ command, brokers, says string }{
		{"dead-letter list --json", down, "Waiting for topic cdc-outbox.dead-letter: "},
		{"dead-letter list", mute(t), "Waiting for topic cdc-outbox.dead-letter: no broker has answered yet"},
		{"dead-letter show x", down, "Waiting for topic cdc-outbox.dead-letter: "},
		{"dead-letter retry --all", down, "Waiting for topic cdc-outbox.dead-letter: "},
		{"replay --all --json", down, "Waiting for topic order.events: "},
		{"replay --all", mute(t), "Waiting for "},
		{"check --json", mute(t), "Waiting for Kafka to answer"},
		{"repair --dry-run --json", down, "Waiting for topic order.events: "},
		{"migrate verify --topic a=b", down, "Waiting for topic a: "},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			cmd := command(t.Context(), append(env, "CDC_OUTBOX_KAFKA_BROKERS="+c.brokers),
				strings.Fields(c.command)...)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, cmd.Start())
			lines, line := bufio.NewScanner(stderr), ""
			for !strings.HasPrefix(line, "Waiting") && lines.Scan() {
				line = lines.Text()
			}
			require.Contains(t, line, c.says)
			t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), line)
			require.NoError(t, cmd.Process.Kill())
			said, err := io.ReadAll(stdout)
			require.NoError(t, err)
			require.Empty(t, string(said))
			require.Error(t, cmd.Wait(), "it was killed")
		})
	}
}
