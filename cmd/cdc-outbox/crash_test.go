//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCrash: a crash of the program ends it by a signal, without a core file. SIGQUIT makes Go's runtime crash as it
// does when memory is exhausted, which nothing recovers from.
//
// Bug (configuration): A crash of the runtime ended the process with code 2, that for a mistake in the configuration.
// Cost: service managers that do not start it again after a 2 left delivery down until a person came.
func TestCrash(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = deaf.Close() }()
	cmd := exec.Command(binary, "status")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		asProgram + "=1", "CDC_OUTBOX_POSTGRES_DSN=postgres://u@" + deaf.Addr().String() + "/d?sslmode=disable",
		"CDC_OUTBOX_POSTGRES_SLOT=s", "CDC_OUTBOX_KAFKA_BROKERS=127.0.0.1:1", "GOTRACEBACK=single",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	conn, err := deaf.Accept() // it has begun
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	status := exit.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), "exit code %d: %s", exit.ExitCode(), stderr.String())
	require.Equal(t, syscall.SIGABRT, status.Signal())
	require.False(t, status.CoreDump())
	require.Contains(t, stderr.String(), "goroutine ")
	files, err := os.ReadDir(cmd.Dir)
	require.NoError(t, err)
	require.Empty(t, files)
}
