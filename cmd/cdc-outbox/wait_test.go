package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestWaitForTheRelay: when outbox.Wait returns, the event is in its topic, on a quiet server and beside transactions
// that the relay does not get. It does not return before the broker has acknowledged the event.
func TestWaitForTheRelay(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"default": nil, "without a checkpoint": {"CDC_OUTBOX_POSTGRES_CHECKPOINT=off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testWait(t, testkit.Postgres(t), env...)
		})
	}
}

func testWait(t *testing.T, db *testkit.Database, env ...string) {
	topic := map[string]int32{"order.events": 1}
	broker, err := fakebroker.Start(fakebroker.Options{Topics: topic})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	kafka, err := kafkaclient.New(broker.Addrs())
	require.NoError(t, err)
	t.Cleanup(kafka.Close)
	ddl, err := outbox.Schema(outbox.Options{})
	require.NoError(t, err)
	db.Exec(t, ddl+"; CREATE TABLE other (n int)")
	r := start(t, variables(t, db, append(env, "CDC_OUTBOX_KAFKA_BROKERS="+broker.Addrs()[0])...))
	r.awaitReady(http.StatusOK)

	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	events := 0
	write := func() {
		events++
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return outbox.Insert(t.Context(), tx,
				outbox.Event{AggregateType: "order", AggregateID: strconv.Itoa(events), Type: "paid"})
		}))
	}
	wait := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return outbox.Wait(ctx, conn, db.Slot)
	}
	// A time that ends within a statement ends its connection, and has another text.
	endsWith := func(why string) {
		require.Eventually(t, func() bool {
			one, err := db.Connect(t.Context(), db.Name)
			require.NoError(t, err)
			defer func() { _ = one.Close(context.Background()) }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err = outbox.Wait(ctx, one, db.Slot)
			require.Error(t, err)
			return strings.Contains(err.Error(), why)
		}, time.Minute, time.Millisecond, why)
	}
	arrives := func() {
		write()
		began := time.Now()
		require.NoError(t, wait())
		t.Log("waited", time.Since(began).Round(time.Millisecond))
		n, err := kafka.Count(t.Context(), "order.events")
		require.NoError(t, err)
		require.EqualValues(t, events, n)
	}
	for range 5 {
		arrives()
	}
	require.NoError(t, wait(), "nothing new")
	stop := foreignWrites(t, db)
	for range 5 {
		arrives()
	}
	stop()

	release := holdProduce(broker.Cluster)
	write()
	endsWith("a relay reads from it: context deadline exceeded")
	release()
	require.NoError(t, wait())
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	write()
	endsWith("no relay reads from it at the moment")
}

// foreignWrites commits to another table than the outbox, without a pause, until stop.
func foreignWrites(t *testing.T, db *testkit.Database) (stop func()) {
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = conn.Exec(context.Background(), "INSERT INTO other VALUES (1)")
		}
	}()
	return func() {
		cancel()
		<-done
		require.NoError(t, conn.Close(context.Background()))
	}
}

// holdProduce keeps requests to produce unanswered until release.
func holdProduce(c *kfake.Cluster) (release func()) {
	over := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-over })
		return nil, nil, false
	})
	return func() { close(over) }
}
