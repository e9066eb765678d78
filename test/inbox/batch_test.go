package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

var abc = []inbox.Event{{ID: "a"}, {ID: "b"}, {ID: "c"}}

// effects is a handler of a batch that sends the effects of its events together.
func effects(events []inbox.Event) func(context.Context, pgx.Tx, []int) error {
	return func(ctx context.Context, tx pgx.Tx, fresh []int) error {
		var b pgx.Batch
		for _, i := range fresh {
			b.Queue("INSERT INTO effects VALUES ($1, '')", events[i].ID)
		}
		return tx.SendBatch(ctx, &b).Close()
	}
}

// Ids and sources go to Postgres as the text of an array, and come back as they were.
func TestABatchOfAnyIDs(t *testing.T) {
	b := newBed(t)
	events := []inbox.Event{
		{ID: `a,b`, Source: `t/0@1`},
		{ID: `{a}`, Source: `"`},
		{ID: `"`},
		{ID: `\`, Source: `\"`},
		{ID: `NULL`, Source: `NULL`},
		{ID: ` `, Source: ` `},
		{ID: "\n\t"},
		{ID: `\\"`},
		{ID: "é漢\U0001f600", Source: "\xff\x00é"},
		{ID: "a'b"},
		{ID: `$1`},
	}
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	std, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "shipping"})
	require.NoError(t, err)
	var fresh []int
	require.NoError(t, in.HandleBatch(t.Context(), events, func(_ context.Context, _ pgx.Tx, is []int) error {
		fresh = is
		return nil
	}))
	require.Len(t, fresh, len(events))
	require.NoError(t, std.HandleBatch(t.Context(), events, func(_ context.Context, _ *sql.Tx, is []int) error {
		require.Equal(t, fresh, is)
		return nil
	}))
	for _, consumer := range []string{"billing", "shipping"} {
		for _, e := range events {
			var source *string
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT source FROM processed_events
				WHERE consumer = $1 AND event_id = $2 AND status = 'COMPLETED' AND completed_at = claimed_at`,
				consumer, e.ID).Scan(&source), "%q", e.ID)
			switch e.Source {
			case "":
				require.Nil(t, source, "%q", e.ID)
			case "\xff\x00é":
				require.Equal(t, "é", *source)
			default:
				require.Equal(t, e.Source, *source, "%q", e.ID)
			}
		}
	}
}

// The handler gets the events that are new, once each and in the order of the batch.
func TestWhatOfABatchIsNew(t *testing.T) {
	b := newBed(t)
	metrics := prometheus.NewRegistry()
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing", Metrics: inbox.NewMetrics(metrics)})
	require.NoError(t, err)
	handle := func(ids ...string) (fresh []int, err error) {
		var events []inbox.Event
		for _, id := range ids {
			events = append(events, inbox.Event{ID: id})
		}
		return fresh, in.HandleBatch(t.Context(), events, func(_ context.Context, _ pgx.Tx, is []int) error {
			fresh = is
			return nil
		})
	}
	fresh, err := handle("c", "a")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, fresh)
	fresh, err = handle("z", "a", "b", "z", "c", "b", "d")
	require.NoError(t, err)
	require.Equal(t, []int{0, 2, 6}, fresh)
	fresh, err = handle("d", "z", "d")
	require.ErrorIs(t, err, inbox.ErrDuplicate)
	require.Nil(t, fresh)
	fresh, err = handle("y")
	require.NoError(t, err)
	require.Equal(t, []int{0}, fresh)
	_, err = handle()
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"claimed": 6, "duplicate": 7, "contended": 0, "failed": 0},
		samples(t, metrics, deliveries))
}

// After an error nothing is written for any event of the batch.
func TestABatchThatFails(t *testing.T) {
	b := newBed(t)
	metrics := prometheus.NewRegistry()
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing", Metrics: inbox.NewMetrics(metrics)})
	require.NoError(t, err)
	errBad := errors.New("bad event")
	require.ErrorIs(t, in.HandleBatch(t.Context(), abc, func(ctx context.Context, tx pgx.Tx, fresh []int) error {
		return errors.Join(effects(abc)(ctx, tx, fresh), errBad)
	}), errBad)
	b.Exec(t, "INSERT INTO processed_events (consumer, event_id, status) VALUES ('billing', 'b', 'PROCESSING')")
	require.ErrorIs(t, in.HandleBatch(t.Context(), abc, effects(abc)), inbox.ErrUnfinished)
	require.ErrorIs(t, in.HandleBatch(t.Context(), append(slices.Clone(abc), inbox.Event{}), effects(abc)),
		inbox.ErrEventID)
	require.ErrorContains(t, in.HandleBatch(t.Context(), append(slices.Clone(abc), inbox.Event{}), effects(abc)),
		"event 3 of the batch")
	err = in.HandleBatch(t.Context(), []inbox.Event{{ID: "a"}, {ID: "c"}},
		func(ctx context.Context, tx pgx.Tx, _ []int) error {
			_, err := tx.Exec(ctx, "ROLLBACK AND CHAIN")
			return err
		})
	require.ErrorContains(t, err, "the handler has ended the transaction itself")
	require.Equal(t, 0, b.count(t, "effects"))
	require.Equal(t, 1, b.count(t, "processed_events"))
	require.Equal(t, map[string]float64{"claimed": 0, "duplicate": 0, "contended": 0, "failed": 5},
		samples(t, metrics, deliveries))
	b.Exec(t, "DROP TABLE processed_events")
	require.ErrorIs(t, in.HandleBatch(t.Context(), abc, effects(abc)), inbox.ErrLedger)
}

// Batches with the same events in other orders wait for each other in one direction only: none is run again after a
// deadlock. Events that are delivered alone meanwhile, by either strategy, have their effect once, too.
func TestBatchesBesideEachOther(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		metrics := prometheus.NewRegistry()
		opts.Metrics = inbox.NewMetrics(metrics)
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		const workers, events = 6, 300
		var running sync.WaitGroup
		for worker := range workers {
			running.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for at := 0; at < events; at += 30 {
					var batch []inbox.Event
					for _, i := range random.Perm(30) {
						batch = append(batch, inbox.Event{ID: strconv.Itoa(at + i)})
					}
					if worker == 0 {
						for _, e := range batch {
							for {
								err := in.Handle(t.Context(), e, effect(e.ID, ""))
								if err == nil || errors.Is(err, inbox.ErrDuplicate) {
									break
								}
								if !errors.Is(err, inbox.ErrContended) {
									t.Error(err)
									return
								}
							}
						}
						continue
					}
					err := in.HandleBatch(t.Context(), batch, effects(batch))
					if err != nil && !errors.Is(err, inbox.ErrDuplicate) {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
		require.Equal(t, events, b.count(t, "effects"))
		require.Equal(t, events, b.count(t, "(SELECT DISTINCT event FROM effects) e"))
		require.Equal(t, events, b.count(t, "processed_events"))
		require.Zero(t, sample(t, metrics, "cdc_outbox_inbox_transaction_repeats_total", ""), "deadlocks")
	})
}

// A large batch: the claims are one statement with three parameters, however many they are.
func TestALargeBatch(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	var events []inbox.Event
	for i := range 100_000 {
		events = append(events, inbox.Event{ID: fmt.Sprintf("event-%d", i)})
	}
	calls := 0
	handle := func(_ context.Context, _ pgx.Tx, fresh []int) error { calls += len(fresh); return nil }
	require.NoError(t, in.HandleBatch(t.Context(), events, handle))
	require.ErrorIs(t, in.HandleBatch(t.Context(), events, handle), inbox.ErrDuplicate)
	require.Equal(t, len(events), calls)
}
