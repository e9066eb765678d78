package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
	porter "github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// binary is the program under test, built once: exit codes and streams belong to a process, not to a function. Under
// -short it is this test, which becomes the program: linking takes longer than those tests.
var binary string

// asProgram is the variable that makes this test the program.
const asProgram = "CDC_OUTBOX_TEST_AS_PROGRAM"

// home holds binary. It must stay reachable: its lock, which keeps other runs from sweeping it away, is an open file.
var home *scratch.Dir

// TestMain builds the binary into a directory that the next run of any test sweeps away: testkit.Main ends the process.
func TestMain(m *testing.M) {
	const built = "v9.9.9-test"
	if os.Getenv(asProgram) != "" {
		_ = os.Unsetenv(asProgram)
		version = built
		main()
	}
	flag.Parse()
	var err error
	if testing.Short() {
		binary, err = os.Executable()
	} else {
		err = buildBinary(built)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.AtEnd(browser.End)
	testkit.Main(m)
}

func buildBinary(version string) error {
	dir, err := scratch.NewDir("cmd")
	if err != nil {
		return err
	}
	home, binary = dir, dir.Join("cdc-outbox")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version="+version, "-o", binary, ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// result is what a process left.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) all() string { return r.stdout + r.stderr }

// invoke runs the binary to its end, with these variables and no others of ours.
func invoke(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, environ, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "it did not end:\n%s", stderr.String())
	var exit *exec.ExitError
	if err != nil {
		require.True(t, errors.As(err, &exit), err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func command(ctx context.Context, environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PG") && !strings.HasPrefix(e, "CDC_OUTBOX_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, environ...)
	if testing.Short() {
		cmd.Env = append(cmd.Env, asProgram+"=1")
	}
	return cmd
}

// deafAddress is an address where nothing listens.
func deafAddress(t *testing.T) (host, port string) {
	t.Helper()
	free, err := porter.Free() // not one that the system may give to another program's connection
	require.NoError(t, err)
	host, port, err = net.SplitHostPort(porter.Addr(free))
	require.NoError(t, err)
	return host, port
}
