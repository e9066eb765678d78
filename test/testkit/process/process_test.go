package process_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func start(t *testing.T, opts process.Options) *process.Process {
	t.Helper()
	p, err := process.Start(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestProcessExitCodeAndOutput(t *testing.T) {
	p := start(t, process.Options{
		Binary: "/bin/sh", Args: []string{"-c", "cat; echo $X $SECRET >&2; exit 3"}, Env: map[string]string{"X": "x"},
		Stdin: "in",
	})
	code, err := p.Wait(time.Minute)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, "in", p.Stdout())
	require.Equal(t, "x\n", p.Log())
}

func TestProcessAlreadyEnded(t *testing.T) {
	p := start(t, process.Options{Binary: "/bin/sh", Args: []string{"-c", "echo gone >&2; exit 1"}})
	require.ErrorContains(t, p.Ready(t.Context()), "gone")
}

func TestProcessMeasuredAndStopped(t *testing.T) {
	p := start(t, process.Options{Binary: "/bin/sh", Args: []string{"-c", "trap 'exit 0' TERM; while :; do :; done"}})
	require.Eventually(t, func() bool {
		return p.Usage().CPU > 50*time.Millisecond
	}, time.Minute, 10*time.Millisecond)
	require.Positive(t, p.Usage().RSS)
	_, err := p.Wait(10 * time.Millisecond)
	require.ErrorContains(t, err, "still running")
	code, err := p.Stop(time.Minute)
	require.NoError(t, err)
	require.Zero(t, code)
}
