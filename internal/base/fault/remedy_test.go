package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestRemedy(t *testing.T) {
	both := fault.Remedy{Next: "Create it.", Commands: []string{"CREATE TABLE t (\n  id int\n);", "cdc-outbox check"}}
	for name, c := range map[string]struct {
		remedy fault.Remedy
		text   string
		lines  []string
	}{
		"none":       {fault.Remedy{}, "", nil},
		"a sentence": {fault.Remedy{Next: "Start it."}, "Start it.", []string{"Start it."}},
		"commands":   {fault.Remedy{Commands: []string{"SELECT 1;"}}, "\n  SELECT 1;", []string{"SELECT 1;"}},
		"both": {
			both, "Create it.\n  CREATE TABLE t (\n    id int\n  );\n  cdc-outbox check",
			[]string{"Create it.", "CREATE TABLE t (", "  id int", ");", "cdc-outbox check"},
		},
		"line ends": {fault.Remedy{Next: "Do.\n", Commands: []string{"", "a\n"}}, "Do.\n  a", []string{"Do.", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.text, c.remedy.String())
			require.Equal(t, c.lines, c.remedy.Lines())
			require.Equal(t, c.lines == nil, c.remedy.IsZero())
		})
	}
	require.Equal(t, "CREATE TABLE t (\n  id int\n);\ncdc-outbox check", both.Script())
	stop := fault.Do("Stop it.", "kill")
	require.Equal(t, fault.Do("Stop it. Create it.", append([]string{"kill"}, both.Commands...)...), stop.Then(both))
	require.Equal(t, stop, stop.Then(fault.Remedy{}))
	require.Equal(t, stop, fault.Remedy{}.Then(stop))
}

func TestErrorWithCommands(t *testing.T) {
	err := &fault.Error{
		Object: `slot "s"`, At: "0/1", Err: errors.New("it does not exist\nat all"), Next: "Create it.",
		Commands: []string{"cdc-outbox setup"},
	}
	require.Equal(t, "slot \"s\" at 0/1: it does not exist\nat all. Next: Create it.\n  cdc-outbox setup", err.Error())
	what, remedy := fault.Split(fmt.Errorf("wrapped: %w", err))
	require.Equal(t, `slot "s" at 0/1: it does not exist; at all`, what)
	require.Equal(t, fault.Remedy{Next: "Create it.", Commands: []string{"cdc-outbox setup"}}, remedy)

	err = &fault.Error{Err: errors.New("no"), Commands: []string{"a", "b"}}
	require.Equal(t, "no. Next:\n  a\n  b", err.Error())

	what, remedy = fault.Split(errors.New("plain\ntext"))
	require.Equal(t, "plain; text", what)
	require.True(t, remedy.IsZero())

	require.ErrorContains(t, fault.Usage("no command", "List them.", "cdc-outbox --help"),
		"no command. Next: List them.\n  cdc-outbox --help")
}
