package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

func newSnapshotBed(t *testing.T, version, delivery string, rows int) *bed {
	t.Helper()
	db := testkit.Postgres(t, version)
	// its end is unique; the table of the snapshot has the slot's name in its own
	db.Slot = "s" + db.Slot[max(0, len(db.Slot)-42):]
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	kafka, err := kafkaclient.New(broker.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	t.Cleanup(kafka.Close)
	require.NoError(t, kafka.Create(t.Context(), kafkaclient.Topic{Name: "orders.events", Partitions: 1},
		kafkaclient.Topic{Name: "bills.events", Partitions: 1}))
	for _, table := range []string{"outbox", `"Bill""box"`} {
		db.Exec(t, `CREATE TABLE
			`+table+` (id bigint PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type `+
			`text NOT NULL,
			payload jsonb, headers jsonb, created_at timestamptz NOT NULL)`)
	}
	db.Exec(t, fmt.Sprintf(`INSERT INTO outbox SELECT g, 'orders', 'k', 'created', jsonb_build_object('n', g), NULL,
		timestamptz '2026-01-01' + g * interval '1 s'
		FROM generate_series(%d, 1, -1) g`, rows))
	db.Exec(t, `INSERT INTO "Bill""box" SELECT g, 'bills', 'k', 'created', jsonb_build_object('n', g), NULL, now()
		FROM generate_series(1, 50) g`)
	return &bed{
		T: t, db: db, kafka: kafka, env: append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+broker.Addrs()[0],
			"CDC_OUTBOX_MONITOR_INTERVAL=200ms",
			"CDC_OUTBOX_DELIVERY="+delivery, "CDC_OUTBOX_POSTGRES_SNAPSHOT=initial",
			`CDC_OUTBOX_POSTGRES_TABLES=public.outbox,public."Bill""box"`),
	}
}

// write inserts rows one by one until the returned function is called, which says how many there are.
func (b *bed) write(from int) (stop func() int) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for ; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox
				VALUES (%d, 'orders', 'k', 'created', '{}', NULL, now())`, from+n))
		}
	})
	return func() int { close(done); wg.Wait(); return n }
}

// The rows that were there come once and first, in the order of the table; rows that are committed while the slot is
// being made come once, too.
func TestSnapshotPublishesWhatWasThere(t *testing.T) {
	t.Parallel()
	const rows = 2500
	for _, version := range testkit.Versions(t, "14", "18") {
		for _, delivery := range []string{"at_least_once", "exactly_once"} {
			t.Run(version+" "+delivery, func(t *testing.T) {
				t.Parallel()
				b := newSnapshotBed(t, version, delivery, rows)
				stop := b.write(100_000)
				r := start(t, b.env)
				r.awaitReady(http.StatusOK)
				written := stop()
				all := b.records("orders.events", int64(rows+written))
				require.Len(t, b.records("bills.events", 50), 50)
				seen := map[string]bool{}
				last := ""
				for i, rec := range all {
					id, position := headerOf(rec, "id"), headerOf(rec, "position")
					require.False(t, seen[id], id)
					seen[id] = true
					require.Less(t, last, position)
					last = position
					if i < rows {
						require.Equal(t, fmt.Sprint(i+1), id)
						require.Equal(t, "true", headerOf(rec, "snapshot"))
					}
				}
				require.Empty(t, headerOf(all[len(all)-1], "snapshot"))
				require.Equal(t, 0, r.stop(syscall.SIGTERM)) // which lets it send what it has read
				require.Len(t, b.records("orders.events", 1), rows+written)
				r = start(t, b.env)
				r.awaitReady(http.StatusOK)
				b.db.Exec(t, `INSERT INTO outbox VALUES (0, 'orders', 'k', 'created', '{}', NULL, now())`)
				b.records("orders.events", int64(rows+written+1))
				require.Equal(t, 0, r.stop(syscall.SIGTERM))
				require.Len(t, b.records("orders.events", 1), rows+written+1, "only once")
				require.Equal(t, 0, invoke(t, b.env, "check").code)
			})
		}
	}
}

// A process that is killed in the middle: the next one goes on where it was. Nothing is missing, and a read_committed
// consumer sees each row once.
func TestSnapshotGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			b := newSnapshotBed(t, "", delivery, rows)
			killed := 0
			for range 3 {
				r := start(t, b.env)
				var st service.Status
				require.Eventually(t, func() bool {
					_, body := r.get("/status")
					st = service.Status{}
					require.NoError(t, json.Unmarshal([]byte(body), &st))
					return st.Snapshot != nil && st.Snapshot.Done > 0 || st.Ready
				}, time.Minute, 5*time.Millisecond)
				if !st.Ready {
					killed++
				}
				require.NoError(t, killAfter(r.cmd, time.Duration(15*killed)*time.Millisecond))
				<-r.done
			}
			require.Positive(t, killed, "too fast to be killed in the middle")
			b.db.Exec(t, `INSERT INTO outbox VALUES (0, 'orders', 'k', 'created', '{}', NULL, now())`)
			r := start(t, b.env)
			r.awaitReady(http.StatusOK)
			var all []*kgo.Record
			require.Eventually(t, func() bool {
				all = b.records("orders.events", rows+1) // more where some came twice
				return headerOf(all[len(all)-1], "id") == "0"
			}, 2*time.Minute, 500*time.Millisecond)
			seen, next := map[string]bool{}, 1
			for _, rec := range all {
				id := headerOf(rec, "id")
				if !seen[id] && id != "0" {
					require.Equal(t, fmt.Sprint(next), id, "first appearances in order")
					next++
				}
				seen[id] = true
			}
			require.Len(t, seen, rows+1)
			t.Logf("%d of 3 killed in the middle, %d repeated", killed, len(all)-rows-1)
			if delivery == "exactly_once" {
				require.Len(t, all, rows+1)
			}
			require.Equal(t, 0, r.stop(syscall.SIGTERM))
		})
	}
}
