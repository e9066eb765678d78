package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// billing is an application that handles the events with package inbox, and what it exports. Its target is listed
// beside that of the relay.
type billing struct {
	metrics http.Handler
	ended   atomic.Bool
}

// handler handles an event that arrived when the consumer had run for a while.
type handler func(ctx context.Context, ran time.Duration, m consumer.Message) error

func handled(context.Context, time.Duration, consumer.Message) error { return nil }

// consumes runs the application until ctx ends.
func (st *stage) consumes(handle handler) func(context.Context) error {
	return func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, st.db.DSN(database))
		if err != nil {
			return err
		}
		defer pool.Close()
		ledger, err := inbox.Schema(inbox.Options{})
		if err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, ledger); err != nil {
			return err
		}
		registry, began := prometheus.NewRegistry(), time.Now()
		metrics := inbox.NewMetrics(registry)
		in, err := inbox.New(pool, inbox.Options{Consumer: "billing", Metrics: metrics})
		if err != nil {
			return err
		}
		c, err := consumer.New(consumer.Options{
			Brokers: st.broker.Addrs(), Group: "billing", Topics: []string{"order.events"}, Metrics: metrics,
			Logger: slog.New(slog.DiscardHandler),
		}, consumer.InTx(in, func(ctx context.Context, _ pgx.Tx, m consumer.Message) error {
			return handle(ctx, time.Since(began), m)
		}))
		if err != nil {
			return err
		}
		app := &billing{metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
		st.mu.Lock()
		st.billing = app
		st.mu.Unlock()
		defer app.ended.Store(true)
		return c.Run(ctx)
	}
}

// scrape is what the application answers.
func (b *billing) scrape() (body string, answers bool) {
	if b.ended.Load() {
		return "", false
	}
	w := httptest.NewRecorder()
	b.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String(), w.Code == http.StatusOK
}

// once is ended when the situation has been healthy for a while, as an application that is scaled to 0.
func once(part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, end := context.WithTimeout(ctx, settled)
		defer end()
		err := part(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
}

// hangs is a handler that does not return, and does not heed its context either, until the situation is over.
func hangs(over context.Context) handler {
	return func(_ context.Context, ran time.Duration, _ consumer.Message) error {
		if ran > settled {
			<-over.Done()
		}
		return nil
	}
}

var errNoColumn = errors.New(`column "cents" of relation "billing_lines" does not exist`)

// fails is a handler that a migration has broken.
func fails(_ context.Context, ran time.Duration, _ consumer.Message) error {
	if ran > settled {
		return errNoColumn
	}
	return nil
}

// slow handles one event a second of each partition.
func slow(ctx context.Context, _ time.Duration, _ consumer.Message) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

// refuses one event, as a handler does that cannot read it.
func refuses() handler {
	var refused atomic.Bool
	return func(_ context.Context, ran time.Duration, _ consumer.Message) error {
		if ran > settled && refused.CompareAndSwap(false, true) {
			return consumer.Permanent(errors.New("the payload has no field order"))
		}
		return nil
	}
}

// backlog writes the events of an outage: as of an hour ago, a second between two of a partition, and so many that they
// last for all of the situation.
func (st *stage) backlog(ctx context.Context, partitions, of int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(st.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	begin := time.Now().Add(-time.Hour)
	var records []*kgo.Record
	for n := range of * partitions {
		records = append(records, &kgo.Record{
			Topic: "order.events", Partition: int32(n % partitions), Value: []byte(`{}`),
			Timestamp: begin.Add(time.Duration(n/partitions) * time.Second),
			Headers:   []kgo.RecordHeader{{Key: "id", Value: []byte("backlog-" + strconv.Itoa(n))}},
		})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// again writes each event three times, with one id, as three relays would that read one table.
func (st *stage) again(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(st.broker.Addrs()...))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		id := []kgo.RecordHeader{{Key: "id", Value: []byte("event-" + strconv.Itoa(n))}}
		for range 3 {
			r := &kgo.Record{Topic: "order.events", Key: []byte(strconv.Itoa(n)), Value: []byte(`{}`), Headers: id}
			if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
				return err
			}
		}
	}
}
