package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// batches records the batches that a handler has got.
type batches struct {
	mu  sync.Mutex
	all [][]string
}

func (b *batches) add(ms []consumer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	b.all = append(b.all, ids)
}

func (b *batches) get() [][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

func (b *batches) largest() (n int) {
	for _, batch := range b.get() {
		n = max(n, len(batch))
	}
	return n
}

func numbered(from, to int) (records []*kgo.Record) {
	for i := from; i < to; i++ {
		records = append(records, record("k", strconv.Itoa(i)))
	}
	return records
}

// Records that wait are handled together, in order and up to the limit, and their offsets are committed.
func TestBatchesOfWhatWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	b.produce(t, numbered(0, 1000)...)
	var seen batches
	opts := b.options()
	opts.Batch = 4
	stop := startBatch(t, opts, func(_ context.Context, ms []consumer.Message) error {
		seen.add(ms)
		return nil
	})
	b.awaitCommitted(t, 1000)
	b.produce(t, record("k", "alone")) // does not wait for others
	b.awaitCommitted(t, 1001)
	require.NoError(t, stop())
	require.Equal(t, 4, seen.largest())
	all := slices.Concat(seen.get()...)
	require.Len(t, all, 1001)
	for i := range 1000 {
		require.Equal(t, strconv.Itoa(i), all[i])
	}
}

// Of a batch that fails each record is handled alone. The record that is the cause is tried again as often as it may
// be, and becomes a letter, and the others have their effect once, in order.
func TestABadRecordInABatch(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	t.Parallel()
	for name, bad := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"an error":    func(context.Context, pgx.Tx) error { return errBad },
		"for good":    func(context.Context, pgx.Tx) error { return consumer.Permanent(errBad) },
		"a panic":     func(context.Context, pgx.Tx) error { panic(errBad) },
		"a statement": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT 1/0"); return err },
		"hidden":      func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil },
		"at the commit": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO late VALUES (1)")
			return err
		},
		"ends the claim": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "ROLLBACK AND CHAIN")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 1)
			in, pool := ledgerOf(t, inbox.Options{Consumer: "billing"})
			_, err := pool.Exec(t.Context(), `CREATE TABLE effects (n bigserial, id text);
				CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (1)`)
			require.NoError(t, err)
			b.produce(t, numbered(0, 100)...)
			opts := b.options()
			opts.Attempts = 3
			var seen batches
			startBatch(t, opts, consumer.BatchInTx(in,
				func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
					seen.add(ms)
					for _, m := range ms {
						if m.ID == "42" {
							if err := bad(ctx, tx); err != nil {
								return err
							}
							continue
						}
						if _, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", m.ID); err != nil {
							return err
						}
					}
					return nil
				}))
			b.awaitCommitted(t, 100)
			var handled []string
			row := pool.QueryRow(t.Context(), "SELECT array_agg(id ORDER BY n) FROM effects")
			require.NoError(t, row.Scan(&handled))
			var want []string
			for i := range 100 {
				if i != 42 {
					want = append(want, strconv.Itoa(i))
				}
			}
			require.Equal(t, want, handled)
			letters := b.letters(t)
			require.Len(t, letters, 1)
			require.Equal(t, "42", header(letters[0], "id"))
			attempts := "3"
			if name == "for good" {
				attempts = "1"
			}
			require.Equal(t, attempts, header(letters[0], consumer.HeaderAttempts))
			require.Greater(t, seen.largest(), 1)
		})
	}
}

// What cannot be in a batch is handled between batches: a record without an id, and a repeat of one that is in it. The
// metrics have each.
func TestWhatEndsABatch(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	nameless := record("k", "")
	nameless.Headers = nil
	records := slices.Concat(numbered(0, 10), numbered(5, 15), []*kgo.Record{nameless}, numbered(15, 20))
	b.produce(t, records...)
	registry := prometheus.NewRegistry()
	opts := b.options()
	opts.Metrics = inbox.NewMetrics(registry)
	var seen batches
	stop := startBatch(t, opts, func(_ context.Context, ms []consumer.Message) error {
		seen.add(ms)
		return nil
	})
	b.awaitCommitted(t, int64(len(records)))
	require.NoError(t, stop())
	var all []string
	for _, batch := range seen.get() {
		all = append(all, batch...)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(batch))), len(batch), "a repeat")
	}
	require.Len(t, all, 20, "each once, although there is no ledger")
	letters := b.letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, "no_id", header(letters[0], consumer.HeaderClass))
	count, err := testutil.GatherAndCount(registry, "cdc_outbox_consumer_event_age_seconds")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "cdc_outbox_consumer_event_age_seconds" {
			require.EqualValues(t, 25, family.GetMetric()[0].GetHistogram().GetSampleCount(), "events")
		}
	}
}

// A batch of large values ends, although it may have more records.
func TestABatchOfLargeValues(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	var records []*kgo.Record
	for i := range 30 {
		r := record("k", strconv.Itoa(i))
		r.Value = make([]byte, 400<<10)
		records = append(records, r)
	}
	b.produce(t, records...)
	var seen batches
	startBatch(t, b.options(), func(_ context.Context, ms []consumer.Message) error {
		seen.add(ms)
		return nil
	})
	b.awaitCommitted(t, 30)
	for _, batch := range seen.get() {
		require.LessOrEqual(t, len(batch), 3, "1 MiB")
	}
}

// A batch that runs when the partition is taken away may finish within Drain, and then it is committed. One that does
// not is left to the next owner.
func TestABatchAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, finishes := range map[string]bool{"finishes": true, "does not finish": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 1)
			b.produce(t, numbered(0, 50)...)
			opts := b.options()
			opts.Drain = 10 * time.Second
			if !finishes {
				opts.Drain = time.Millisecond
			}
			running, stopping := make(chan int, 1), make(chan struct{})
			stop := startBatch(t, opts, func(ctx context.Context, ms []consumer.Message) error {
				if len(ms) == 1 { // the first of a new group
					return nil
				}
				select {
				case running <- len(ms):
					<-stopping
				case <-stopping:
				}
				if finishes {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})
			n := <-running
			stopped := make(chan error)
			go func() { stopped <- stop() }()
			close(stopping)
			require.NoError(t, <-stopped)
			if finishes {
				require.GreaterOrEqual(t, b.committed(t), int64(1+n))
			} else {
				require.EqualValues(t, 1, b.committed(t))
			}
			require.Empty(t, b.letters(t))
		})
	}
}

// While a key is held, its records wait as letters and the records of other keys are handled in batches. When it is
// released, its events come in order.
func TestBatchesBesideAHeldKey(t *testing.T) {
	r := newHoldRig(t, 1)
	r.refuse("a1")
	var log logBuffer
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var seen batches
	handle := func(ctx context.Context, ms []consumer.Message) error {
		seen.add(ms)
		return r.handle(ctx, ms)
	}
	records := []*kgo.Record{record("a", "a1")}
	var others []string
	for i := range 200 {
		id := fmt.Sprint("b", i)
		records = append(records, record("b", id))
		others = append(others, id)
	}
	records = append(records, record("a", "a2"))
	r.produce(t, records...)
	stop := startBatch(t, r.opts, handle)
	r.awaitCommitted(t, int64(len(records)))
	require.NoError(t, stop())
	require.Equal(t, others, r.effects())
	require.Equal(t, []string{"a1 permanent", "a2 waiting"}, r.open())

	for i := range 200 {
		r.produce(t, record("b", fmt.Sprint("c", i)))
	}
	before := len(seen.get())
	stop = startBatch(t, r.opts, handle)
	r.awaitCommitted(t, int64(len(records))+200)
	require.Less(t, len(seen.get())-before, 200, "batches, although a letter is open")
	r.refuse()
	require.Equal(t, 1, r.retry())
	r.awaitCommitted(t, int64(len(records))+201)
	require.NoError(t, stop())
	effects := r.effects()
	require.Equal(t, []string{"a1", "a2"}, effects[len(effects)-2:])
	require.Empty(t, r.open())
}
