package port_test

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

// role makes the test binary another process that asks for many ports.
const role = "PORT_TEST_OTHER"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		other()
	}
	os.Exit(m.Run())
}

// other prints a thousand ports and holds them until its standard input ends.
func other() {
	var given []string
	for range 1000 {
		p, err := port.Free()
		if err != nil {
			os.Exit(1)
		}
		given = append(given, strconv.Itoa(p))
	}
	_, _ = os.Stdout.WriteString(strings.Join(given, " ") + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// TestFree: no two callers get the same port, not even in two processes, although no server listens there yet.
func TestFree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), role+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	text := make([]byte, 0, 6000)
	for !strings.Contains(string(text), "\n") {
		n, err := out.Read(text[len(text):cap(text)])
		require.NoError(t, err)
		text = text[:len(text)+n]
	}
	seen := map[int]bool{}
	for _, field := range strings.Fields(string(text)) {
		p, err := strconv.Atoi(field)
		require.NoError(t, err)
		seen[p] = true
	}
	require.Len(t, seen, 1000)
	for range 1000 {
		p, err := port.Free()
		require.NoError(t, err)
		require.False(t, seen[p], "%d was given before", p)
		seen[p] = true
	}
	p, err := port.Free()
	require.NoError(t, err)
	l, err := net.Listen("tcp", port.Addr(p))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
