//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// relay is a connector at work: its rig, its process and the writers of its table.
type relay struct {
	*rig
	name    string // how it delivers
	p       *process.Process
	writers *oracle.Writers
}

// relays are connectors of both kinds of delivery that meet the same faults, each with a database and topics of its
// own.
type relays []*relay

// startRelays starts one connector for each kind of delivery, and writers for each.
func startRelays(t *testing.T, s surroundings, load oracle.Load) relays {
	t.Helper()
	var all relays
	for _, name := range []string{"at_least_once", "exactly_once"} {
		s.exactlyOnce = name == "exactly_once"
		r := newRig(t, s)
		all = append(all, &relay{rig: r, name: name, p: r.start()})
	}
	for _, r := range all {
		r.writers = r.oracle.StartWriters(load)
		t.Cleanup(func() { r.writers.Stop() })
	}
	return all
}

// written waits until each relay's writers have committed n transactions more.
func (all relays) written(n int) {
	for _, r := range all {
		written(r.T, r.writers, n)
	}
}

// catchUp waits until each slot has passed everything that is committed now, and logs how long that took since the
// fault.
func (all relays) catchUp(what string, since time.Time) {
	t := all[0].T
	t.Helper()
	var took []string
	for _, r := range all {
		require.NoError(t, r.oracle.AwaitCaughtUp(r.within(2*time.Minute)), "%s: %s: %s", what, r.name, r.p.LogTail(10))
		took = append(took, r.name+" "+time.Since(since).Round(10*time.Millisecond).String())
	}
	t.Logf("%s: confirmed again after %s", what, strings.Join(took, ", "))
}

// once is the verdict where the process stayed the same: nothing may come twice.
func (all relays) once() {
	t := all[0].T
	t.Helper()
	for _, r := range all {
		t.Logf("%s: written: %+v", r.name, r.writers.Stop())
	}
	for _, r := range all {
		require.NoError(t, r.p.Ready(r.within(patience)))
		r.rig.once()
		require.True(t, r.p.Running())
	}
}

// retried is how many batches were sent again for one of the reasons, over all relays.
func (all relays) retried(reasons ...string) int {
	n := 0.0
	for _, r := range all {
		for _, reason := range reasons {
			v, err := r.p.Metric(`cdc_outbox_producer_retries_total{error="` + reason + `"}`)
			require.NoError(r, err)
			n += v
		}
	}
	return int(n)
}

// awaitNotReady waits until the connector is not ready and its reason has all the parts. It returns the reason.
func awaitNotReady(t *testing.T, p *process.Process, limit time.Duration, parts ...string) string {
	t.Helper()
	var why string
	until(t, limit, 50*time.Millisecond, func() (bool, string) {
		var code int
		var err error
		if code, why, err = p.Get("/readyz"); err != nil {
			return false, err.Error() // it has not said so
		}
		why = strings.TrimSpace(why)
		lacks := slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(why, s) })
		return code != http.StatusOK && !lacks,
			fmt.Sprintf("it should not be ready, because of %q; it says: %s", parts, why)
	})
	return why
}

// until polls in the test's own goroutine. require.Eventually does so in another one, which may still write what the
// message about its failure reads.
func until(t *testing.T, limit, every time.Duration, reached func() (ok bool, instead string)) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(every) { //waits:ok the pause between two queries
		ok, instead := reached()
		switch {
		case ok:
			return
		case time.Now().After(end):
			t.Fatalf("after %s: %s", limit, instead)
		}
	}
}

// settled waits until a value has stayed the same for a second, and returns it.
func settled[V comparable](t *testing.T, look func() V) V {
	t.Helper()
	value, since := look(), time.Now()
	until(t, patience, 100*time.Millisecond, func() (bool, string) {
		now := look()
		if now != value {
			value, since = now, time.Now()
		}
		return time.Since(since) > time.Second, fmt.Sprint("it does not settle; last: ", value)
	})
	return value
}

// awaitSlotFree waits until no session holds the slot. The server may notice that a process has ended a moment later.
func (r *rig) awaitSlotFree() {
	r.Helper()
	conn := connect(r.T, r.db.DSN)
	defer conn.Close(context.Background()) // a test may ask many times
	until(r.T, patience, 20*time.Millisecond, func() (bool, string) {
		var active bool
		require.NoError(r, conn.QueryRow(r.Context(), `SELECT active FROM pg_replication_slots WHERE slot_name = $1`,
			r.db.Slot).Scan(&active))
		return !active, "a session holds the slot"
	})
}

// delayed is a text that is made when it is printed.
type delayed func() string

func (d delayed) String() string { return d() }

// awaitUnacknowledged waits until the connector holds records that Kafka has not acknowledged.
func awaitUnacknowledged(t *testing.T, p *process.Process, records float64) {
	t.Helper()
	until(t, patience, 20*time.Millisecond, func() (bool, string) {
		in, err := p.Metric("cdc_outbox_window_records")
		return err == nil && in >= records, fmt.Sprintf("%.0f records are unacknowledged (%v)", in, err)
	})
}

// awaitWait waits until the first thing that the connector says it waits for is of a kind, and returns it.
func awaitWait(t *testing.T, p *process.Process, kind string) (first map[string]any) {
	t.Helper()
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		w := waits(t, p)
		if len(w) > 0 {
			first = w[0]
		}
		return len(w) > 0 && first["kind"] == kind, fmt.Sprintf("it should wait for %s; it waits for %v", kind, w)
	})
	return first
}

// waits are the things that the connector says it waits for.
func waits(t *testing.T, p *process.Process) (all []map[string]any) {
	t.Helper()
	st, err := p.Status()
	require.NoError(t, err)
	list, _ := st["waits_for"].([]any)
	for _, w := range list {
		all = append(all, w.(map[string]any))
	}
	return all
}
