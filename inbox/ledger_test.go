package inbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Consumer: "billing"}
	_, err := New(nil, good)
	require.NoError(t, err)
	for name, change := range map[string]func(*Options){
		"no consumer":     func(o *Options) { o.Consumer = "" },
		"long consumer":   func(o *Options) { o.Consumer = strings.Repeat("x", 256) },
		"NUL":             func(o *Options) { o.Consumer = "a\x00" },
		"no text":         func(o *Options) { o.Consumer = "\xff" },
		"strategy":        func(o *Options) { o.Strategy = "hope" },
		"isolation":       func(o *Options) { o.Isolation = sql.LevelLinearizable },
		"table too long":  func(o *Options) { o.Table = strings.Repeat("x", 64) },
		"negative repeat": func(o *Options) { o.Attempts = -1 },
	} {
		bad := good
		change(&bad)
		_, err := New(nil, bad)
		require.Error(t, err, name)
		_, err = NewSQL(nil, bad)
		require.Error(t, err, name)
	}
}

func TestEventIDs(t *testing.T) {
	for _, id := range []string{"", strings.Repeat("x", 513), "a\x00", "\xff"} {
		require.ErrorIs(t, Event{ID: id}.validate(), ErrEventID)
	}
	require.NoError(t, Event{ID: strings.Repeat("ä", 256)}.validate())
	require.Nil(t, Event{}.source())
	require.Equal(t, "ab", Event{Source: "a\x00b\xff"}.source())
	require.Equal(t, strings.Repeat("x", 511), Event{Source: strings.Repeat("x", 511) + "ä"}.source())
}

// The key may never change: two versions of a service would not see each other's locks.
func TestLockKey(t *testing.T) {
	require.EqualValues(t, int64(-3520682301520058639), lockKey("billing", "018f4d3c-0000-7000-8000-000000000001"))
	require.NotEqual(t, lockKey("a", "bc"), lockKey("ab", "c"))
}

func TestLongestValuesFit(t *testing.T) {
	b := newBed(t)
	long := strings.Repeat("x", maxEventID)
	in, err := New(b.pool, Options{Consumer: strings.Repeat("c", maxConsumer), Strategy: Advisory})
	require.NoError(t, err)
	require.NoError(t, in.Handle(t.Context(), Event{ID: long, Source: strings.Repeat("s", 600)}, effect("long", "")))
	require.ErrorIs(t, in.Handle(t.Context(), Event{ID: long}, effect("long", "")), ErrDuplicate)
}

func TestPrune(t *testing.T) {
	b := newBed(t)
	b.Exec(t, `INSERT INTO processed_events (consumer, event_id, status, claimed_at)
SELECT consumer, age || '-' || n, status, now() - age::interval FROM unnest(ARRAY['billing', 'mail']) consumer, unnest(ARRAY['1h', '13d', '15d']) age,
	unnest(ARRAY['COMPLETED', 'PROCESSING']) status, generate_series(1, 6000) n ON CONFLICT DO NOTHING`)
	b.Exec(t, "INSERT INTO processed_events VALUES ('billing', 'begun', 'PROCESSING', NULL, now() - interval '1 year')")
	m := NewMetrics(prometheus.NewRegistry())
	in, err := New(b.pool, Options{Consumer: "billing", Metrics: m})
	require.NoError(t, err)
	_, err = in.Prune(t.Context(), time.Hour)
	require.ErrorContains(t, err, "24h")
	require.Zero(t, testutil.CollectAndCount(m.prunedAt), "nothing was pruned")
	n, err := in.Prune(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 6000, n)
	require.Equal(t, 6000., testutil.ToFloat64(m.pruned))
	require.InDelta(t, time.Now().Unix(), testutil.ToFloat64(m.prunedAt), 60)
	std, err := NewSQL(b.sql, Options{Consumer: "billing"})
	require.NoError(t, err)
	n, err = std.Prune(t.Context(), MinKeep)
	require.NoError(t, err)
	require.EqualValues(t, 6000, n)
	require.Equal(t, 6001, b.count(t, "processed_events WHERE consumer = 'billing'"))
	require.Equal(t, 18000, b.count(t, "processed_events WHERE consumer = 'mail'"))
	require.NoError(t, in.Ping(t.Context()))
	require.NoError(t, std.Ping(t.Context()))
}

func TestForward(t *testing.T) {
	b := newBed(t)
	in, err := New(b.pool, Options{Consumer: "mail"})
	require.NoError(t, err)
	const limit = time.Minute
	answer := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	never := func(context.Context) error {
		t.Error("called again")
		return nil
	}
	older := func(id string) {
		b.Exec(t, "UPDATE processed_events SET claimed_at = now() - interval '3 minutes' WHERE event_id = '"+id+"'")
	}

	require.NoError(t, in.Forward(t.Context(), Event{ID: "a"}, limit, answer(nil)))
	require.ErrorIs(t, in.Forward(t.Context(), Event{ID: "a"}, limit, never), ErrDuplicate)

	require.ErrorIs(t, in.Forward(t.Context(), Event{ID: "b"}, limit, answer(ErrNotSent)), ErrNotSent)
	require.NoError(t, in.Forward(t.Context(), Event{ID: "b"}, limit, answer(nil)), "it had no effect, so it may be called again")

	refused := errors.New("500")
	err = in.Forward(t.Context(), Event{ID: "c"}, limit, answer(refused))
	require.ErrorIs(t, err, ErrUnfinished)
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, in.Forward(t.Context(), Event{ID: "c"}, limit, never), ErrContended, "for all the second delivery knows, the first is still at it")
	older("c")
	require.ErrorIs(t, in.Forward(t.Context(), Event{ID: "c"}, limit, never), ErrUnfinished)
	require.ErrorIs(t, in.Handle(t.Context(), Event{ID: "c"}, effect("c", "")), ErrUnfinished)

	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, in.Forward(ctx, Event{ID: "d"}, limit, func(context.Context) error { cancel(); return nil }))
	std, err := NewSQL(b.sql, Options{Consumer: "mail"})
	require.NoError(t, err)
	require.ErrorIs(t, std.Forward(t.Context(), Event{ID: "d"}, limit, never), ErrDuplicate, "what happened is written down, whatever else ends")
	require.Error(t, in.Forward(t.Context(), Event{ID: "e"}, 0, never))
}
