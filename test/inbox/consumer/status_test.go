package consumer_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// A handler hangs, and fifty records wait after its own: metrics, status and readiness say so, and when it continues
// they say that too.
//
// Bug (monitor): A consumer whose handler hung showed nothing: every series stayed 0, and no line was in the log. Cost:
// fifty events waited, and no alert fired.
func TestAStuckConsumerIsSeen(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	for _, id := range strings.Fields(strings.Repeat("e ", 51)) {
		b.produce(t, record("k", id))
	}
	registry := prometheus.NewRegistry()
	opts := b.options()
	opts.Metrics, opts.Recent, opts.Stall = inbox.NewMetrics(registry), -1, 200*time.Millisecond
	release := make(chan struct{})
	var handled atomic.Int32
	c, err := consumer.New(opts, func(ctx context.Context, m consumer.Message) error {
		if m.Attempt == 1 && m.Offset == 0 {
			return errBad
		}
		select {
		case <-release:
			handled.Add(1)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	require.NoError(t, err)
	require.ErrorContains(t, c.Ready(), "Run is not running")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	stuck := regexp.MustCompile(`order\.events partition 0: no progress for .*, at offset 0, 51 records wait; ` +
		`event "e", attempt 2: bad event`)
	require.Eventually(t, func() bool { // on a slow machine there is none before the second attempt, either
		err := c.Ready()
		return err != nil && stuck.MatchString(err.Error())
	}, time.Minute, 5*time.Millisecond)
	s := c.Status()
	require.Positive(t, s.Generation)
	require.Len(t, s.Partitions, 1)
	p := s.Partitions[0]
	require.EqualValues(t, 51, p.Lag)
	require.Equal(t, "e", p.EventID)
	require.WithinDuration(t, time.Now(), p.EventTime, time.Minute)
	require.EqualValues(t, 51, value(t, registry, "cdc_outbox_consumer_lag"))
	require.EqualValues(t, 1, value(t, registry, "cdc_outbox_consumer_assigned_partitions"))
	require.InDelta(t, p.EventTime.Unix(), value(t, registry, "cdc_outbox_consumer_oldest_timestamp_seconds"), 1)

	close(release)
	require.Eventually(t, func() bool { return handled.Load() == 51 && c.Ready() == nil },
		time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool { return c.Status().Partitions[0].Next == 51 }, time.Minute, 5*time.Millisecond)
	require.Zero(t, c.Status().Partitions[0].Lag)
	require.Zero(t, value(t, registry, "cdc_outbox_consumer_lag"))
	require.Zero(t, value(t, registry, "cdc_outbox_consumer_oldest_timestamp_seconds"))
	require.InDelta(t, float64(time.Now().Unix()),
		value(t, registry, "cdc_outbox_consumer_progress_timestamp_seconds"), 30)
	n, err := testutil.GatherAndCount(registry, "cdc_outbox_consumer_event_age_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, n)

	cancel()
	require.NoError(t, <-done)
	require.ErrorContains(t, c.Ready(), "Run is not running")
	n, err = testutil.GatherAndCount(registry, "cdc_outbox_consumer_lag")
	require.NoError(t, err)
	require.Zero(t, n, "another member has the partition from now on")
	require.Zero(t, value(t, registry, "cdc_outbox_consumer_assigned_partitions"))
}

// A member of a group with fewer partitions than members is ready, and a group whose broker is away is not joined.
func TestReadyWithoutPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	b := newBed(t, 1)
	opts := b.options()
	handle := func(context.Context, consumer.Message) error { return nil }
	var members []*consumer.Consumer
	for range 2 {
		c, err := consumer.New(opts, handle)
		require.NoError(t, err)
		members = append(members, c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	require.Eventually(t, func() bool {
		return members[0].Ready() == nil && members[1].Ready() == nil &&
			len(members[0].Status().Partitions)+len(members[1].Status().Partitions) == 1
	}, time.Minute, 5*time.Millisecond)
}

func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			require.Len(t, f.GetMetric(), 1)
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no series %s", name)
	return 0
}
