//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

// natsRig is a connector's surroundings with a server of its own.
func natsRig(t *testing.T, delivery string) (*rig, *natsserver.Server, jetstream.Stream, jetstream.JetStream) {
	db := testkit.Postgres(t)
	emptyTable(t, db)
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), jetstream.StreamConfig{
		Name: "OUTBOX", Subjects: []string{"outbox.>", "letters"},
	})
	return &rig{T: t, db: db, began: time.Now(), env: map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_SINK": "nats",
		"CDC_OUTBOX_NATS_SERVERS": s.URL(), "CDC_OUTBOX_ROUTER_TOPIC": "outbox.${aggregate_type}",
		"CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": "letters", "CDC_OUTBOX_DELIVERY": delivery,
		"CDC_OUTBOX_MONITOR_INTERVAL": "1s",
	}}, s, stream, js
}

// The connector is killed under load, another one takes the slot over, and the server is restarted: in JetStream each
// committed event is there once, in both deliveries, in the order of its key, and nothing that was rolled back.
func TestNATSHasEachEventOnce(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			r, s, stream, _ := natsRig(t, delivery)
			relays := []interface{ Kill() }{r.start(), r.launch()}
			const keys = 4
			var stop atomic.Bool
			var writers errgroup.Group
			written := make([]int, keys)
			for key := range keys {
				conn := connect(t, r.db.DSN)
				writers.Go(func() error {
					for n := 1; !stop.Load(); n++ {
						end := "COMMIT"
						if n%10 == 0 {
							end = "ROLLBACK"
						}
						_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN;
							INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
							VALUES ('order', 'k%d', '%s', '%d'); %s`, key, end, written[key]+1, end))
						if err != nil {
							return err
						}
						if end == "COMMIT" {
							written[key]++
						}
					}
					return nil
				})
			}
			for round := range soak(20, 4) {
				//waits:ok the load runs in between
				time.Sleep(700 * time.Millisecond)
				relays[round%2].Kill()
				relays[round%2] = r.launch()
				if round%2 == 1 {
					s.Down()
					s.Up()
				}
			}
			stop.Store(true)
			require.NoError(t, writers.Wait())
			r.awaitConfirmed()

			next := map[string]int{}
			for _, m := range natsserver.Messages(t, stream) {
				key := m.Headers().Get("Outbox-Key")
				next[key]++
				require.Equal(t, strconv.Itoa(next[key]), string(m.Data()), "%s: %v", key, m.Headers())
				require.Equal(t, "COMMIT", m.Headers().Get("type"))
				require.Equal(t, "outbox.order", m.Subject())
			}
			for key := range keys {
				require.Equal(t, written[key], next["k"+strconv.Itoa(key)])
				require.Greater(t, written[key], 50)
			}
			t.Logf("%v", next)
		})
	}
}

// A stranger's faults with sink: nats: each has its cause in /readyz and status, and ends with what is printed.
func TestNATSFaults(t *testing.T) {
	t.Parallel()
	r, s, stream, js := natsRig(t, "at_least_once")
	p := r.start()
	out, _ := r.command(0, "check")
	require.Contains(t, out, `stream "OUTBOX"`)
	_, said := r.command(2, "replay", "--since", "2030-01-01T00:00:00Z")
	require.Contains(t, said, "this needs Kafka, and sink is nats")

	insert := func(kind, headers string) {
		r.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers)
			VALUES ('%s', 'k', 'x', '{}', '%s')`, kind, headers))
	}
	s.Down()
	insert("order", `{}`)
	awaitNotReady(t, p, patience, "no connection to NATS")
	s.Up()
	require.NoError(t, p.Ready(r.within(patience)))
	r.awaitConfirmed()

	insert("order", `{"nats-rollup": "all"}`)
	why := awaitNotReady(t, p, patience, "would be an instruction to the server")
	require.NotContains(t, strings.ToLower(why), "kafka")
	p.Kill()
	r.start(map[string]string{"CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter"})
	r.awaitConfirmed()
	var subjects []string
	for _, m := range natsserver.Messages(t, stream) {
		subjects = append(subjects, m.Subject())
	}
	require.Equal(t, []string{"outbox.order", "letters"}, subjects)

	// A stream that is deleted and made again has lost events: a gap, until it is dismissed.
	gaps := func(which string) int64 {
		return count(t, r.db.DSN, "SELECT count(*) FROM cdc_outbox_gaps WHERE "+which)
	}
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		return gaps("evidence::text LIKE '%stream OUTBOX of%'") == 1, "the account should name the stream"
	})
	require.Zero(t, gaps("cause <> 'none'"))
	ctx := r.within(patience)
	require.NoError(t, js.DeleteStream(ctx, "OUTBOX"))
	_, err := js.CreateStream(ctx, stream.CachedInfo().Config)
	require.NoError(t, err)
	insert("order", `{}`)
	r.awaitConfirmed()
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		return gaps("cause = 'kafka_replaced'") == 1, "there should be a gap"
	})
	out, _ = r.command(0, "status")
	require.Contains(t, out, "records go to")
}
