package lastword

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestWordOfAnError(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err := (&fault.Error{Kind: fault.Operator, Object: `slot "s"`, Err: errors.New("it is lost")}).
		With(fault.Do("Begin again.", "cdc-outbox slot recreate"))
	w := Of(err, true, Who{"v1", "host", 7}, now)
	require.Equal(t, Word{
		At: now, ExitCode: 3, Code: Operator, Sentence: `slot "s": it is lost`, Next: "Begin again.",
		Commands: []string{"cdc-outbox slot recreate"}, Version: "v1", Host: "host", PID: 7,
	}, w)
	require.Equal(t, `The connector (pid 7 on host) ended at 2026-01-02T03:04:05Z with exit code 3: `+
		`slot "s": it is lost`, w.Explain())
	w = Of(err, false, Who{Host: "host"}, now)
	require.Zero(t, w.ExitCode)
	require.Contains(t, w.Explain(), "has waited for an operator since 2026-01-02T03:04:05Z")
	require.Equal(t, 1, Of(errors.New("x"), true, Who{}, now).ExitCode)
}

func TestWordIsBounded(t *testing.T) {
	long := &fault.Error{Err: errors.New(strings.Repeat("ü", 5000)), Commands: []string{strings.Repeat("x", 5000)}}
	w := Of(long, true, Who{}, time.Now())
	require.LessOrEqual(t, len(w.Sentence), maxText+len("…"))
	require.True(t, utf8.ValidString(w.Sentence))
	require.Empty(t, w.Commands, "half a command is none")
}

func TestWordThatWasTold(t *testing.T) {
	now := time.Now()
	var none *Word
	require.False(t, none.Current())
	require.False(t, none.ToldWithin(time.Hour, now))
	w := &Word{Code: Operator, Sentence: "a", Told: &now}
	require.True(t, w.Current())
	require.True(t, w.ToldWithin(time.Hour, now.Add(time.Minute)))
	require.False(t, w.ToldWithin(time.Hour, now.Add(time.Hour)))
	require.False(t, w.ToldWithin(time.Hour, now.Add(-time.Minute)), "the clock was put back")
	require.True(t, w.Same(Word{Code: Operator, Sentence: "a", PID: 9}))
	require.False(t, w.Same(Word{Code: Operator, Sentence: "b"}))
	w.Over = &now
	require.False(t, w.Current())
}
