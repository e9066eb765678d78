//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// Two of three brokers die. The broker that is left leads everything and has it alone, so nothing may be confirmed
// until another is back.
func TestClusterTwoOfThreeBrokersDown(t *testing.T) {
	t.Parallel()
	// The controller is node 1's alone: with the majority of the controllers the cluster could not even tell who is in
	// sync.
	c := threeBrokers(t, kafka.Options{Voters: 1})
	all := startRelays(t, surroundings{kafka: c, replicas: 3, env: map[string]string{"CDC_OUTBOX_HTTP_STALL": "4s"}},
		clusterLoad)
	all.written(300)
	for _, down := range [][]*kafka.Broker{{c.Brokers[1], c.Brokers[2]}, {c.Brokers[2], c.Brokers[1]}}[:soak(2, 1)] {
		require.NoError(t, c.AwaitInSync(all[0].within(patience)))
		down[0].Kill()
		down[1].Kill()
		began := time.Now()
		for _, r := range all {
			why := awaitNotReady(t, r.p, patience)
			t.Logf("%s: not ready: %s", r.name, why)
		}
		// The waits name every partition; one of them must say that replicas are missing, and how to look at them.
		require.Eventually(t, func() bool {
			for _, w := range waits(t, all[0].p) {
				if w["kind"] == "not_enough_replicas" {
					t.Logf("it waits for %s: %s Next: %s", w["object"], w["reason"], w["next"])
					return true
				}
			}
			return false
		}, patience, 100*time.Millisecond)
		var before []oracle.LSN
		for _, r := range all {
			before = append(before, confirmed(r.rig))
		}
		time.Sleep(soak(20*time.Second, 5*time.Second)) //waits:ok the fault lasts
		for i, r := range all {
			require.Equal(t, before[i], confirmed(r.rig), "%s: nothing can have been acknowledged by two brokers",
				r.name)
			ready, _ := r.p.IsReady()
			require.False(t, ready)
		}
		t.Logf("two brokers down for %v", time.Since(began).Round(time.Second))
		began = time.Now()
		require.NoError(t, down[0].Start(all[0].within(patience)))
		all.catchUp("one of the two is back (with its start)", began)
		require.NoError(t, down[1].Start(all[0].within(patience)))
	}
	all.once()
}
