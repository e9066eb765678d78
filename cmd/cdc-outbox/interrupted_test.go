package main

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// interrupt runs a command until a line of stderr holds ripe, or where that is empty until it has called a server, and
// presses Ctrl-C.
func interrupt(t *testing.T, env []string, called <-chan struct{}, ripe, line string) result {
	t.Helper()
	cmd := command(t.Context(), env, strings.Fields(line)...)
	var stdout, said bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	guard := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	if ripe == "" {
		go func() {
			select {
			case <-called: // not after a while: it may be slow to begin, and a signal would end it like any program
				_ = cmd.Process.Signal(syscall.SIGTERM)
			case <-t.Context().Done():
			}
		}()
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if ripe != "" && strings.Contains(lines.Text(), ripe) {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	_ = cmd.Wait()
	return result{cmd.ProcessState.ExitCode(), stdout.String(), said.String()}
}

// An operator who presses Ctrl-C reads that this ended the command and what is done, not what became of a query.
//
// Bug (monitor): An interrupted command reported "context canceled"; `status` and `setup --dry-run` reported that
// Postgres does not answer. Cost: advice for a fault that did not exist, and no report of what was done.
func TestInterruptedCommandsSaySo(t *testing.T) {
	db := testkit.Postgres(t)
	env := variables(t, db)
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('order', 'k', 'created', '{}')`)
	noKafka := func(silent string) []string {
		return append(env[:len(env):len(env)], "CDC_OUTBOX_KAFKA_BROKERS="+silent)
	}
	noPostgres := func(silent string) []string {
		return append(env[:len(env):len(env)], "CDC_OUTBOX_POSTGRES_DSN=postgres://u@"+silent+"/d?sslmode=disable")
	}
	polls := func(silent string) []string {
		return append(slices.DeleteFunc(noPostgres(silent), func(e string) bool {
			return strings.Contains(e, "_SLOT=") || strings.Contains(e, "_PUBLICATION=")
		}), "CDC_OUTBOX_SOURCE=polling")
	}
	for _, c := range []struct {
		env           func(silent string) []string
		ripe, command string
		says          string
	}{
		{noKafka, "Waiting", "dead-letter list", "dead-letter list was interrupted. " + leavesNothing},
		{noKafka, "Waiting", "dead-letter show x --json", leavesNothing},
		{noKafka, "Waiting", "dead-letter retry --all", "Letters that it has published are listed above"},
		{noKafka, "Waiting", "dead-letter retry --all --dry-run", leavesNothing},
		{noKafka, "Waiting", "check", "check was interrupted. " + leavesNothing},
		{noKafka, "Waiting", "repair --dry-run", "repair was interrupted. " + leavesNothing},
		{noKafka, "Waiting", "migrate verify --topic a=b", "migrate verify was interrupted. " + leavesNothing},
		{noPostgres, "", "check --json", leavesNothing},
		{noPostgres, "", "status", "status was interrupted. " + leavesNothing},
		{noPostgres, "", "status --why", leavesNothing},
		{polls, "", "status", leavesNothing},
		{noPostgres, "", "monitor --once", "monitor was interrupted. " + leavesNothing},
		{polls, "", "monitor --once", "monitor was interrupted. " + leavesNothing},
		{noPostgres, "", "setup", "it makes what is missing"},
		{noPostgres, "", "setup --dry-run", leavesNothing},
		{noPostgres, "", "teardown --yes", "it drops the rest"},
		{noPostgres, "", "slot", "slot was interrupted. " + leavesNothing},
		{noPostgres, "", "slot accept", "slot accept was interrupted. `cdc-outbox slot` shows"},
		{noPostgres, "", "repair", "repair was interrupted. " + leavesNothing},
		{noPostgres, "", "prune --older-than 1h", "prune was interrupted. " + leavesNothing},
		{noPostgres, "", "prune --older-than 1h --dry-run", leavesNothing},
		{noPostgres, "", "replay --all", "replay was interrupted. Published so far: 0 rows. It can be run again."},
		{noPostgres, "", "migrate polling --postgres-snapshot initial", "migrate polling was interrupted."},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			silent, called := muteFor(t)
			r := interrupt(t, c.env(silent), called, c.ripe, c.command)
			require.Equal(t, 1, r.code, r.all())
			require.Contains(t, r.stderr, c.says)
			require.Equal(t, 1, strings.Count(r.stderr, "cdc-outbox: "), r.stderr)
			require.NotContains(t, r.all(), "cancel")
			if !strings.HasPrefix(c.command, "replay") { // which prints its summary however it ends
				require.Empty(t, r.stdout)
			}
		})
	}
}

// The command reports what it knows of its work.
func TestInterruptedCommandsSayHowFarTheyCame(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, oldOrders)
	b.records("orders.events", 300)

	r := interrupt(t, b.env, nil, "public.outbox: 2 of 300 rows deleted", "prune --older-than=7d --batch=2 --pause=1h")
	require.Equal(t, 1, r.code, r.all())
	require.Contains(t, r.stderr, "prune was interrupted. Known to be deleted so far: 2 rows. The same command goes "+
		"on with the rest.")
	require.Contains(t, r.stdout, "2 deleted")

	r = interrupt(t, b.env, nil, ", up to ", "replay --all --rate=1")
	require.Equal(t, 1, r.code, r.all())
	require.Regexp(t, `replay was interrupted. Published so far: [1-9]\d? rows?\. Run again it begins at the first row`,
		r.stderr)
	r = interrupt(t, b.env, nil, ", up to ", "replay --all --rate=1 --resume="+t.TempDir()+"/state")
	require.Equal(t, 1, r.code, r.all())
	require.Regexp(t, `replay was interrupted. Published so far: [1-9]\d? rows?\. The same command goes on from `+
		`there.\n$`, r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "Published so far"))
}
