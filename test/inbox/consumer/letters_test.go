package consumer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/retry"
)

type silent struct{}

func (silent) Say(string)                {}
func (silent) Step(progress.Step)        {}
func (silent) Wait(progress.Wait) func() { return func() {} }

// letterOptions are the options of a command on the letters.
func (b *bed) letterOptions(filter deadletter.Filter) retry.Options {
	return retry.Options{
		Filter: filter, Topic: topic + ".DLT", Timeout: 20 * time.Second, Progress: silent{},
		Kafka: kafka.Config{Cluster: wire.Cluster{Brokers: b.Addrs()}},
	}
}

func (b *bed) entries(t *testing.T) []*deadletter.Entry {
	t.Helper()
	o := b.letterOptions(deadletter.Filter{})
	box, err := letterbox.Open(t.Context(), reader.Open(o.Kafka.Cluster), o.Topic, o.Progress)
	require.NoError(t, err)
	defer box.Close()
	require.Zero(t, box.Ledger.Strange)
	return box.Ledger.Entries()
}

func done(t *testing.T) func([]*retry.Letter) {
	return func(batch []*retry.Letter) {
		for _, l := range batch {
			require.NoError(t, l.Err, l.Entry.Position)
		}
	}
}

// A consumer's letters are chosen by group, reason and source. They go back to their partition unchanged and in their
// order, and are handled once, however often they are retried. What is open is counted until a retry or a dismissal.
//
// Bug (monitor): `dead-letter list` on a consumer's topic reported no dead letters of this version, with exit 0. Cost:
// letters that no tool could retry, and an alert that ended ten minutes after the last.
func TestConsumersLettersAreRetried(t *testing.T) {
	t.Parallel()
	b := newBed(t, 3)
	in, pool := ledgerOf(t, inbox.Options{Consumer: "invoices"})
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (n bigserial, id text)")
	require.NoError(t, err)
	var fixed atomic.Bool
	handle := consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
		if !fixed.Load() && m.ID != "good" {
			return consumer.Permanent(errBad)
		}
		_, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", m.ID)
		return err
	})
	nameless := record("k", "x")
	nameless.Headers = nil
	tombstone := record("k", "e11")
	tombstone.Value = nil
	var records []*kgo.Record
	for i := range 11 {
		records = append(records, record("k", fmt.Sprintf("e%d", i)))
	}
	b.produce(t, append(records, tombstone, nameless, record("k", "good"))...)
	registry := prometheus.NewRegistry()
	opts := b.options()
	opts.Metrics = inbox.NewMetrics(registry)
	stop := start(t, opts, handle)
	b.awaitCommitted(t, 14)
	require.NoError(t, stop())

	entries := b.entries(t)
	require.Len(t, entries, 13)
	source := entries[0].Source
	for i, e := range entries {
		require.Equal(t, "billing", e.Group)
		require.Equal(t, deadletter.Open, e.State)
		require.Equal(t, topic, e.Topic)
		require.EqualValues(t, i, e.Source.Offset, "numbers are ordered as numbers")
		require.Equal(t, fmt.Sprintf("%s/%d@%d", topic, source.Partition, i), e.Position)
		require.WithinDuration(t, time.Now(), e.Written, time.Minute)
	}
	require.Equal(t, "permanent", entries[0].Reason)
	require.Equal(t, "bad event", entries[0].Detail)
	require.Equal(t, "no_id", entries[12].Reason)

	fixed.Store(true)
	n, err := retry.Run(t.Context(), b.letterOptions(deadletter.Filter{Group: "another"}), done(t))
	require.NoError(t, err)
	require.Zero(t, n)
	chosen := deadletter.Filter{Group: "billing", Source: topic, Reasons: []string{"permanent"}}
	n, err = retry.Run(t.Context(), b.letterOptions(chosen), done(t))
	require.NoError(t, err)
	require.Equal(t, 12, n)
	n, err = retry.Run(t.Context(), b.letterOptions(chosen), done(t))
	require.NoError(t, err)
	require.Zero(t, n, "they are not open any more")
	again := b.letterOptions(chosen)
	again.Again = true
	n, err = retry.Run(t.Context(), again, done(t))
	require.NoError(t, err)
	require.Equal(t, 12, n)

	stop = start(t, opts, handle)
	b.awaitCommitted(t, 14+24)
	require.Eventually(t, func() bool { return value(t, registry, "cdc_outbox_inbox_open_dead_letters") == 1 },
		30*time.Second, 10*time.Millisecond, "the record without an id")
	require.NoError(t, stop())
	var got []string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT array_agg(id ORDER BY n) FROM effects").Scan(&got))
	want := []string{"good"}
	for i := range 12 {
		want = append(want, fmt.Sprintf("e%d", i))
	}
	require.Equal(t, want, got)
	retried, err := b.Read(t.Context(), topic)
	require.NoError(t, err)
	for i, r := range retried[14:26] {
		require.Equal(t, source.Partition, r.Partition)
		require.Equal(t, fmt.Sprintf("e%d", i), header(r, "id"))
		require.NotEmpty(t, header(r, "retried"))
		require.Empty(t, header(r, consumer.HeaderReason))
		require.Equal(t, i == 11, r.Value == nil, "a tombstone stays one")
	}

	n, err = retry.Dismiss(t.Context(), b.letterOptions(deadletter.Filter{Reasons: []string{"no_id"}}), done(t))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, deadletter.Dismissed, b.entries(t)[12].State)
	start(t, opts, handle)
	require.Eventually(t, func() bool { return value(t, registry, "cdc_outbox_inbox_open_dead_letters") == 0 },
		30*time.Second, 10*time.Millisecond)
}

// Two groups may have a letter of one event, at one position. --group says whose is meant.
func TestLettersOfTwoGroups(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	b.produce(t, record("k", "e1"))
	for _, group := range []string{"billing", "mail"} {
		opts := b.options()
		opts.Group = group
		start(t, opts, func(context.Context, consumer.Message) error { return consumer.Permanent(errBad) })
	}
	require.Eventually(t, func() bool { return len(b.entries(t)) == 2 }, 60*time.Second, 20*time.Millisecond)
	for _, name := range []string{"e1", b.entries(t)[0].Position} {
		o := b.letterOptions(deadletter.Filter{})
		o.Names = []string{name}
		_, err := retry.Dismiss(t.Context(), o, done(t))
		require.ErrorContains(t, err, "2 dead letters have the id or position "+name)
		require.ErrorContains(t, err, "--group: billing, mail")
		o.Group = "shipping"
		_, err = retry.Dismiss(t.Context(), o, done(t))
		require.ErrorContains(t, err, "is not one that --group")
	}
	for left, group := range []string{"mail", "billing"} {
		o := b.letterOptions(deadletter.Filter{Group: group})
		o.Names = []string{"e1"}
		n, err := retry.Dismiss(t.Context(), o, done(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		open := 0
		for _, e := range b.entries(t) {
			if e.State == deadletter.Open {
				open++
				require.NotEqual(t, group, e.Group)
			}
		}
		require.Equal(t, 1-left, open)
	}
}
