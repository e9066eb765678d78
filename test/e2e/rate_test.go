//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// What exactly-once delivery costs: the same backlog, drained by turns with and without transactions, from slots that
// all begin in front of it. Neighbours in time meet the same machine, so each pair gives a ratio, and their median
// counts: no single pause decides it.
func TestExactlyOnceRate(t *testing.T) {
	rows := soak(300_000, 80_000)
	rounds, atLeast := soak(7, 3), soak(0.85, 0.5)
	r, kind, _ := plainRig(t, testkit.Postgres(t))
	r.db.Exec(t, "CREATE PUBLICATION "+r.db.Publication+" FOR TABLE outbox")
	slot := func(round int, delivery string) string {
		return fmt.Sprintf("%s_%d_%s", r.db.Slot, round, delivery[:2])
	}
	deliveries := []string{"at_least_once", "exactly_once"}
	for round := range rounds + 1 {
		for _, d := range deliveries {
			r.db.Exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", slot(round, d)))
		}
	}
	// Small transactions, as applications write them; the loop runs in the server.
	r.db.Exec(t, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
		INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT '%s', ((i * 10 + g) %% 5000)::text, 'happened', 
			jsonb_build_object('n', i * 10 + g, 'pad', repeat('x', 250))
		FROM generate_series(1, 10) g;
		COMMIT;
	END LOOP; END $$`, rows/10, kind))
	rates := map[string][]float64{}
	var ratios []float64
	for round := range rounds + 1 {
		for i := range deliveries {
			d := deliveries[(round+i)%2]
			p := r.launch(map[string]string{"CDC_OUTBOX_DELIVERY": d, "CDC_OUTBOX_POSTGRES_SLOT": slot(round, d)})
			rate := r.drainRate(p, rows)
			t.Logf("round %d, %s: %.0f rows/s, %v of CPU", round, d, rate, p.Usage().CPU)
			_, err := p.Stop(patience)
			require.NoError(t, err)
			if round > 0 { // the first one warms up the broker and Postgres
				rates[d] = append(rates[d], rate)
			}
		}
	}
	for round := range rounds {
		ratios = append(ratios, rates["exactly_once"][round]/rates["at_least_once"][round])
	}
	ratio := median(ratios)
	t.Logf("exactly_once runs at %.0f %% of at_least_once: the median of %d pairs, %.2f; medians %.0f and "+
		"%.0f rows/s", 100*ratio, rounds, ratios,
		median(rates["exactly_once"]), median(rates["at_least_once"]))
	require.GreaterOrEqual(t, ratio, atLeast)
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// drainRate waits until the connector has published n rows, and returns how fast it was since it had published none:
// without its start. However late it is asked, there is such a moment.
func (r *rig) drainRate(p *process.Process, n int) float64 {
	r.Helper()
	var last float64
	began, ended := time.Now(), time.Time{}
	require.Eventually(r, func() bool {
		st, err := p.Status()
		if err != nil {
			return false
		}
		last, _ = st["counts"].(map[string]any)["published"].(float64)
		ended = time.Now()
		if last == 0 {
			began = ended
		}
		return int(last) >= n
	}, 3*time.Minute, 10*time.Millisecond, "%d rows published: %s", n, delayed(func() string {
		return strings.TrimSpace(p.LogTail(5))
	}))
	return last / ended.Sub(began).Seconds()
}
