// Package process builds the cdc-outbox binary and runs it as its users do: configured by environment and flags, asked
// over HTTP, stopped by signals.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

const (
	// EnvBinary names a binary to use instead of a freshly built one.
	EnvBinary = "CDC_OUTBOX_TEST_BINARY"
	// EnvBuildFlags are flags for go build where a test gives none, e.g. "-race".
	EnvBuildFlags = "CDC_OUTBOX_TEST_BUILDFLAGS"
)

// command is found by its import path: the tests are in another module of the workspace.
const command = "github.com/cdc-outbox/cdc-outbox/cmd/cdc-outbox"

var built struct {
	sync.Mutex
	dir    *scratch.Dir
	byArgs map[string]string
}

// Build builds the command once per test process and set of flags (e.g. "-race") and returns the path. Call Clean at
// the end.
func Build(flags ...string) (string, error) {
	if path := os.Getenv(EnvBinary); path != "" {
		return path, nil
	}
	if len(flags) == 0 {
		flags = strings.Fields(os.Getenv(EnvBuildFlags))
	}
	built.Lock()
	defer built.Unlock()
	key := strings.Join(flags, " ")
	if path, ok := built.byArgs[key]; ok {
		return path, nil
	}
	if built.dir == nil {
		dir, err := scratch.NewDir("binary")
		if err != nil {
			return "", err
		}
		built.dir = dir
		built.byArgs = map[string]string{}
	}
	path := built.dir.Join(fmt.Sprintf("cdc-outbox-%d", len(built.byArgs)))
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, command)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cdc-outbox: %w: %s", err, out)
	}
	built.byArgs[key] = path
	return path, nil
}

// Clean removes what Build built.
func Clean() error {
	built.Lock()
	defer built.Unlock()
	if built.dir == nil {
		return nil
	}
	err := built.dir.Remove()
	built.dir, built.byArgs = nil, nil
	return err
}
