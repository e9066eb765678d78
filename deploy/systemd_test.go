package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

var unitCommand = regexp.MustCompile(
	`(?m)^ExecStart=/usr/bin/cdc-outbox (\S+) --config /etc/cdc-outbox/cdc-outbox\.yaml$`)

// TestUnits: the units start a command that exists, with variables that exist, and systemd finds no mistake in them.
//
// Bug (monitor): The units took a crash of the program, exit code 2, for a mistake in the configuration. Cost: a relay
// that stays down while its slot holds back WAL.
func TestUnits(t *testing.T) {
	for file, command := range map[string]string{"cdc-outbox.service": "run", "cdc-outbox-monitor.service": "monitor"} {
		text, err := os.ReadFile(filepath.Join("systemd", file))
		require.NoError(t, err)
		m := unitCommand.FindStringSubmatch(string(text))
		require.NotNil(t, m, file)
		require.Equal(t, command, m[1])
		environ := environment(t, string(text))
		_, err = config.Load(config.Options{Environ: environ})
		require.NoError(t, err, file)
		requireRestartAfterCrash(t, string(text), environ)
		verify(t, file, string(text))
	}
}

// environment is what the unit sets.
func environment(t *testing.T, unit string) []string {
	environ := []string{}
	for _, line := range strings.Split(unit, "\n") {
		if variable, ok := strings.CutPrefix(line, "Environment="); ok {
			environ = append(environ, strings.ReplaceAll(variable, "%d", filepath.Join(mounted(t), "postgres")))
		}
	}
	return environ
}

const crash = "CDC_OUTBOX_TEST_CRASH"

// TestCrash is what requireRestartAfterCrash runs in a process of its own.
func TestCrash(t *testing.T) {
	if os.Getenv(crash) == "" {
		t.Skip("only in a process of its own")
	}
	go panic("on purpose")
	select {}
}

// requireRestartAfterCrash fails if the unit takes a program that crashed for one that asked not to be restarted.
func requireRestartAfterCrash(t *testing.T, unit string, environ []string) {
	t.Helper()
	_, codes, ok := strings.Cut(unit, "\nRestartPreventExitStatus=")
	require.True(t, ok)
	codes, _, _ = strings.Cut(codes, "\n")
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
	cmd.Dir, cmd.Env = t.TempDir(), append(environ, crash+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(out), "on purpose")
	require.NotContains(t, strings.Fields(codes), strconv.Itoa(exit.ExitCode()), "systemd would not start it again")
}

// verify lets systemd read the unit, with a program that exists on this machine.
func verify(t *testing.T, file, text string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here, so systemd has not read the unit")
		return
	}
	path := filepath.Join(t.TempDir(), file)
	text = strings.ReplaceAll(text, "/usr/bin/cdc-outbox", "/bin/true")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), file, "it reports a line of the unit")
}
