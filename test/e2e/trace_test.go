//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/otelinbox"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/outbox/oteloutbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/collector"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestOneTrace follows an event from the request that writes it, through the table, the relay and Kafka, to the
// handler: one trace, the relay's and the handler's spans children of the writer's, and the traceparent on the wire the
// writer's.
func TestOneTrace(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *collector.Collector{
		"http": collector.HTTP, "grpc": collector.GRPC,
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Postgres(t)
			r, kind, topic := plainRig(t, db)
			require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: topic + ".DLT"}))
			ledger, err := inbox.Schema(inbox.Options{})
			require.NoError(t, err)
			db.Exec(t, ledger)
			to := start(t)
			p := r.start(map[string]string{
				"CDC_OUTBOX_TRACES_ENDPOINT": to.URL, "CDC_OUTBOX_TRACES_PROTOCOL": name,
				"CDC_OUTBOX_TRACES_SAMPLE": "0", "OTEL_BSP_SCHEDULE_DELAY": "50",
				"CDC_OUTBOX_TRACES_HEADERS": "authorization=Bearer%20t0ken",
			})

			ours := tracetest.NewInMemoryExporter()
			provider := sdk.NewTracerProvider(sdk.WithSyncer(ours),
				sdk.WithResource(resource.NewSchemaless(semconv.ServiceName("shop"))))
			pool, err := pgxpool.New(t.Context(), db.DSN)
			require.NoError(t, err)
			defer pool.Close()
			box, err := outbox.New(outbox.Options{Headers: oteloutbox.Headers})
			require.NoError(t, err)

			write := func(id string, ctx context.Context) {
				require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return box.Insert(ctx, tx, outbox.Event{
						ID: id, AggregateType: kind, AggregateID: "42", Type: "paid",
						Payload: map[string]string{"name": "Zoë"},
					})
				}))
			}
			const traced, plain = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
			began := time.Now()
			ctx, request := provider.Tracer("shop").Start(t.Context(), "POST /orders")
			write(traced, ctx)
			committed := time.Now()
			request.End()
			write(plain, t.Context())

			in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
			require.NoError(t, err)
			handled := make(chan trace.SpanContext, 2)
			c, err := consumer.New(consumer.Options{
				Brokers: r.kafka.Addrs(), Group: kind, Topics: []string{topic}, Healthy: in.Ping,
				Start: otelinbox.Start(provider, kind),
			}, consumer.InTx(in, func(ctx context.Context, _ pgx.Tx, m consumer.Message) error {
				if m.ID == traced {
					handled <- trace.SpanContextFromContext(ctx)
				}
				return nil
			}))
			require.NoError(t, err)
			running, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Run(running) }()
			var handler trace.SpanContext
			select {
			case handler = <-handled:
			case <-time.After(patience):
				t.Fatal("the event was not handled")
			}
			relay := to.Await(t, 1)
			whole := time.Since(began)
			stop()
			require.NoError(t, <-done)

			id, parent := request.SpanContext().TraceID().String(), request.SpanContext().SpanID().String()
			require.Len(t, relay, 1, "the event without a traceparent is not sampled")
			require.Equal(t, id, relay[0].TraceID)
			require.Equal(t, parent, relay[0].Parent)
			require.Equal(t, "send "+topic, relay[0].Name)
			require.Equal(t, "Bearer t0ken", relay[0].Authorization)
			require.Equal(t, id, handler.TraceID().String())
			for _, s := range ours.GetSpans() {
				if s.SpanContext.SpanID() == handler.SpanID() {
					require.Equal(t, parent, s.Parent.SpanID().String(), "a sibling of the relay's")
				}
			}
			require.NotEqual(t, relay[0].SpanID, handler.SpanID().String())

			a := relay[0].Attributes
			lag := a["cdc_outbox.commit_to_ack_seconds"].(float64)
			t.Logf("lag %.4f s, attributes %v", lag, a)
			require.Greater(t, lag, 0.0)
			require.Less(t, lag, whole.Seconds())
			require.WithinDuration(t, committed, relay[0].End, whole)
			require.False(t, relay[0].End.Before(relay[0].Start))
			require.Equal(t, traced, a["messaging.message.id"])
			require.NotContains(t, fmt.Sprint(a), "Zoë")

			// The record where the span says it is, with the header as it was written.
			record := recordAt(t, r, topic, a["messaging.destination.partition.id"].(string),
				a["messaging.kafka.offset"].(int64))
			header := map[string]string{}
			for _, h := range record.Headers {
				header[h.Key] = string(h.Value)
			}
			require.Equal(t, traced, header["id"])
			require.Equal(t, fmt.Sprintf("00-%s-%s-01", id, parent), header["traceparent"])
			require.Equal(t, header["position"], a["cdc_outbox.position"])

			// The metric that leads there, and no secret anywhere.
			until(t, patience, 20*time.Millisecond, func() (bool, string) { // the collector has it before the answer
				exported, err := p.Metric(`cdc_outbox_trace_spans_total{result="exported"}`)
				require.NoError(t, err)
				return exported == 1, fmt.Sprint(exported, " spans exported")
			})
			require.NotContains(t, p.Log(), "t0ken")
		})
	}
}

func recordAt(t *testing.T, r *rig, topic, partition string, offset int64) *kgo.Record {
	t.Helper()
	var index int32
	_, err := fmt.Sscan(partition, &index)
	require.NoError(t, err)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.kafka.Addrs()[0], ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {index: kgo.NewOffset().At(offset)}}))
	require.NoError(t, err)
	defer client.Close()
	fetches := client.PollRecords(r.within(patience), 1)
	require.NoError(t, fetches.Err())
	require.NotEmpty(t, fetches.Records())
	require.Equal(t, offset, fetches.Records()[0].Offset)
	return fetches.Records()[0]
}
