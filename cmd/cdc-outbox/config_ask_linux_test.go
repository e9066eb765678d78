package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestConfigInitAsks: on a terminal init asks for the key where no column's name shows it, again until the answer is a
// column or empty; without a terminal it asks nothing.
func TestConfigInitAsks(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE "OutboxMessages" ("Id" uuid PRIMARY KEY, "Type" text, "Content" jsonb, "Tenant" text)`)
	env := variables(t, db)
	file := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	for _, of := range []struct{ typed, want string }{
		{"nowhere\nTenant\n", `aggregate_id: "Tenant"`},
		{"Content/order/id\n", `"id": "Content/order/id"`},
		{"\n", "undecided:\n  - router.columns.aggregate_id: "},
		{"\x04", "undecided:\n  - router.columns.aggregate_id: "}, // the end of the input
	} {
		person, tty := openTerminal(t)
		cmd := command(t.Context(), env, "config", "init", "--force", "--output", file)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = tty, &stderr
		_, err := person.WriteString(of.typed)
		require.NoError(t, err)
		require.NoError(t, cmd.Run(), stderr.String())
		require.Contains(t, stderr.String(), "By their types it can be Id, Type, Tenant.")
		require.Equal(t, strings.Contains(of.typed, "nowhere"), strings.Contains(stderr.String(), "no column nowhere"))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), of.want)
	}
	r := invoke(t, env, "config", "init", "--force", "--output", file)
	require.Equal(t, 0, r.code, r.all())
	require.NotContains(t, r.all(), "By their types")
	require.Contains(t, r.stdout, "Next: decide what the file lists under undecided")
}

// openTerminal is a terminal of which a test holds the person's side.
func openTerminal(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return person, tty
}
