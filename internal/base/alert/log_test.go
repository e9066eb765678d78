package alert

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestEventLogRemedy(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	e := Event{
		Alert: "x", State: Firing, Level: Warn,
		Cause: Cause{Code: "c", Sentence: "S.", Next: "Do it.", Commands: []string{"a", "b"}},
	}
	e.Log(zap.New(core))
	fields := logs.TakeAll()[0].ContextMap()
	require.Equal(t, "Do it.", fields["next"])
	require.Equal(t, []any{"a", "b"}, fields["commands"])
	e.State = Resolved
	e.Log(zap.New(core))
	fields = logs.TakeAll()[0].ContextMap()
	require.NotContains(t, fields, "next")
	require.NotContains(t, fields, "commands")
	e.State, e.Cause.Commands = Firing, nil
	e.Log(zap.New(core))
	require.NotContains(t, logs.TakeAll()[0].ContextMap(), "commands")
}
