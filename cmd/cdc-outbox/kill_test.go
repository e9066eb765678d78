package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// writes inserts rows, perSecond of them in batches of 10 ms, until stop, which returns how many there are.
func (b *bed) writes(perSecond int) (stop func() int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	conn, err := b.db.Connect(ctx, b.db.Name)
	require.NoError(b, err)
	done := make(chan int64, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		n := int64(0)
		for {
			select {
			case <-ctx.Done():
				done <- n
				return
			case <-tick.C:
			}
			tag, err := conn.Exec(context.WithoutCancel(ctx), fmt.Sprintf(`INSERT INTO outbox
				(aggregate_type, aggregate_id, event_type, payload)
				SELECT 'orders', g::text, 'created', '{"n": 1}' FROM generate_series(1, %d) g`, perSecond/100))
			if err != nil {
				done <- -1
				return
			}
			n += tag.RowsAffected()
		}
	}()
	return func() int64 {
		cancel()
		n := <-done
		require.NoError(b, conn.Close(context.Background()))
		return n
	}
}

// repeats counts the records of events that came before.
func repeats(records []*kgo.Record) (n int) {
	seen := map[string]bool{}
	for _, r := range records {
		for _, h := range r.Headers {
			if h.Key == "id" {
				if seen[string(h.Value)] {
					n++
				}
				seen[string(h.Value)] = true
			}
		}
	}
	return n
}

// killAfter kills a process at a moment that has no event of its own. The error is os.ErrProcessDone if the process
// ended before.
func killAfter(cmd *exec.Cmd, after time.Duration) error {
	time.Sleep(after) //waits:ok the moment of a kill is a time, so that many kills meet many states
	return cmd.Process.Kill()
}

// TestKillRepeatsLittle: at 3,000 rows a second a connector that is killed repeats what 100 ms bring at most, on
// average. The test allows twice that, for machines that are busy with other tests.
//
// Bug (checkpoint): The checkpoint was written once a second. Cost: a kill repeated half a second's worth of events.
func TestKillRepeatsLittle(t *testing.T) {
	const rate, kills = 3000, 4
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	stop := b.writes(rate)
	for range kills {
		run := start(t, b.env)
		run.awaitReady(200)
		// What came while no process ran is sent faster than the rate, and more of it is repeated.
		require.Eventually(t, func() bool {
			var st service.Status
			_, body := run.get("/status")
			return json.Unmarshal([]byte(body), &st) == nil && st.Counts.Published > 0 &&
				st.OldestUnconfirmedSeconds < 0.5
		}, time.Minute, 10*time.Millisecond)
		require.NoError(t, killAfter(run.cmd, 700*time.Millisecond)) // of work at full rate
		<-run.done
	}
	rows := stop()
	require.Positive(t, rows)
	last := start(t, b.env)
	last.awaitReady(200)
	b.records("orders.events", rows)
	require.Equal(t, 0, last.stop(syscall.SIGTERM))
	again := repeats(b.records("orders.events", rows))
	t.Logf("%d kills at %d rows/s: %d repeats of %d rows, %d a kill", kills, rate, again, rows, again/kills)
	require.LessOrEqual(t, again, kills*rate/10*2)
}
