package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// interruption is the error of a command that was stopped by SIGINT or SIGTERM before its end. The call that was cut
// off, a query or a read, has an error of its own that says nothing to the operator who pressed Ctrl-C. The exit code
// is 1.
type interruption struct {
	command string
	left    string // its result so far, and the effect of running it again
	err     error
}

func (e *interruption) Error() string { return e.command + " was interrupted. " + e.left }

func (e *interruption) Unwrap() error { return &fault.Error{Kind: fault.Fatal, Err: e.err} }

// leaves says it for commands that cannot tell how far they came. Commands that are not here, and set no app.left, only
// read.
var leaves = map[string]string{
	"setup":           "What it had made by then is listed above and stays. Run it again: it makes what is missing.",
	"teardown":        "What it had dropped by then stays dropped. Run it again: it drops the rest.",
	"slot accept":     "`cdc-outbox slot` shows whether it was done already; if not, run it again.",
	"slot advance":    "`cdc-outbox slot` shows whether it was done already; if not, run it again.",
	"slot recreate":   "`cdc-outbox slot` shows whether it was done already; if not, run it again.",
	"migrate polling": "What it had done by then is listed above. Run it again: it goes on from there.",
	"dead-letter retry": "Letters that it has published are listed above, and marked. Run it again with --all or " +
		"--reason for the others.",
}

const leavesNothing = "It has changed nothing, and can be run again."

// interrupted turns the error of a command that a signal has ended into an interruption. run is none: it stops as
// asked, and an error of its stop is an error.
func (a *app) interrupted(ctx context.Context, cmd *cobra.Command, err error) error {
	name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	if ctx.Err() == nil || name == "run" || !errors.Is(err, context.Canceled) && fault.KindOf(err) != fault.Retry {
		return err
	}
	left := a.left
	if left == "" {
		left = leaves[name]
	}
	if f := cmd.Flags().Lookup("dry-run"); left == "" || f != nil && f.Value.String() == "true" {
		left = leavesNothing
	}
	return &interruption{command: name, left: left, err: err}
}

// needsSlot refuses a command that is about the slot.
func needsSlot(c *config.Loaded, command, instead string) error {
	if c.Source != config.SourcePolling {
		return nil
	}
	return &fault.Error{
		Kind: fault.Config, Object: command, Err: errors.New("it is about a replication slot, and source is polling"),
		Next: instead,
	}
}
