package outbox_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
)

// writerDSN names the variable that makes the test binary a service that writes an order with its event.
const writerDSN = "OUTBOX_TEST_WRITER_DSN"

// writeAndWait saves both, prints that, and commits when it reads a line.
func writeAndWait(dsn string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	fail(err)
	_, err = conn.Exec(ctx, "SET application_name = 'writer'")
	fail(err)
	tx, err := conn.Begin(ctx)
	fail(err)
	_, err = tx.Exec(ctx, "INSERT INTO orders (id) VALUES (42)")
	fail(err)
	fail(outbox.Insert(ctx, tx, paid()))
	fmt.Println("saved")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	fail(err)
	fail(tx.Commit(ctx))
	fmt.Println("committed")
}

// A service that is killed between save and commit leaves neither row nor event; one that commits leaves both.
func TestKilledBeforeCommit(t *testing.T) {
	conn, db := connect(t, outbox.Options{})
	db.Exec(t, "CREATE TABLE orders (id bigint PRIMARY KEY)")
	count := func() (orders, events int) {
		row := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox)")
		require.NoError(t, row.Scan(&orders, &events))
		return orders, events
	}
	write := func() (c *child.Child, says *bufio.Reader, goOn func()) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerDSN+"="+db.DSN)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, end, err := os.Pipe() // one that the end of the process does not close before it is read
		require.NoError(t, err)
		t.Cleanup(func() { _ = out.Close() })
		cmd.Stdout = end
		c, err = child.Start(cmd, syscall.SIGKILL)
		_ = end.Close()
		require.NoError(t, err)
		says = bufio.NewReader(out)
		line, err := says.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "saved", strings.TrimSpace(line))
		return c, says, func() { _, _ = in.Write([]byte("\n")) }
	}

	killed, _, _ := write()
	require.NoError(t, killed.Signal(syscall.SIGKILL))
	<-killed.Done()
	// Only a transaction that is over can neither show its rows nor hold them back.
	require.Eventually(t, func() bool {
		var open int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'writer'`).Scan(&open))
		return open == 0
	}, 30*time.Second, 10*time.Millisecond, "the server ends the session")
	orders, events := count()
	require.Zero(t, orders)
	require.Zero(t, events)

	second, says, goOn := write()
	goOn()
	line, err := says.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "committed", strings.TrimSpace(line))
	<-second.Done()
	orders, events = count()
	require.Equal(t, 1, orders)
	require.Equal(t, 1, events)
}
