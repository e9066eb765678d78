//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// Three brokers, two of which must have each record. All faults hit a relay of each kind of delivery at once.
//
// Bug (producer): With transactions, a broker that hung cost a connection's whole timeout for each coordinator it had
// been. Cost: half a minute instead of a few seconds.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := threeBrokers(t, kafka.Options{})
	t.Run("leader killed", func(t *testing.T) { leaderKilled(t, c, soak(10, 2)) })
	t.Run("leader bounced", func(t *testing.T) { leaderBounced(t, c, soak(5, 1)) })
	t.Run("leader frozen", func(t *testing.T) { leaderFrozen(t, c, soak(30*time.Second, 8*time.Second)) })
}

// clusterLoad leaves two cores room for three brokers.
var clusterLoad = oracle.Load{Writers: 2, Pause: 30 * time.Millisecond}

// leaderOf returns the broker that leads a partition of one relay's topics: of the first one's in round 0, of the
// second's in 1, and so on.
func (all relays) leaderOf(c *kafka.Cluster, round int) *kafka.Broker {
	r := all[round%len(all)]
	r.Helper()
	require.NoError(r, c.AwaitInSync(r.within(patience)), "all replicas in sync before the next fault")
	id, err := c.Leader(r.within(patience), r.oracle.Topics()[0], int32(round%3))
	require.NoError(r, err)
	return c.Node(id)
}

func leaderKilled(t *testing.T, c *kafka.Cluster, times int) {
	all := startRelays(t, surroundings{kafka: c, replicas: 3}, clusterLoad)
	for i := range times {
		all[0].pause(500*time.Millisecond, 2*time.Second)
		leader := all.leaderOf(c, i)
		began := time.Now()
		leader.Kill()
		all.catchUp(fmt.Sprintf("kill %d, node %d", i+1, leader.Node), began)
		require.NoError(t, leader.Start(all[0].within(patience)))
	}
	all.once()
}

func leaderBounced(t *testing.T, c *kafka.Cluster, times int) {
	all := startRelays(t, surroundings{kafka: c, replicas: 3}, clusterLoad)
	for i := range times {
		all[0].pause(500*time.Millisecond, 2*time.Second)
		leader := all.leaderOf(c, i)
		began := time.Now()
		require.NoError(t, leader.Stop(all[0].within(patience)))
		all.catchUp(fmt.Sprintf("stop %d, node %d", i+1, leader.Node), began)
		require.NoError(t, leader.Start(all[0].within(patience)))
	}
	all.once()
}

// The others elect a new leader while the frozen one has requests in its sockets. When it thaws, none of them may land
// after newer records, which the new leader has taken meanwhile.
func leaderFrozen(t *testing.T, c *kafka.Cluster, d time.Duration) {
	all := startRelays(t, surroundings{kafka: c, replicas: 3}, clusterLoad)
	all.written(300)
	require.NoError(t, c.AwaitInSync(all[0].within(patience)))
	// It leads partitions of each new topic, and the one relay's transactions too.
	leader := all[1].transactionCoordinator(c)
	began := time.Now()
	require.NoError(t, leader.Signal(syscall.SIGSTOP))
	defer func() { _ = leader.Signal(syscall.SIGCONT) }()
	all.blameNoOther(leader, began.Add(8*time.Second))
	all.catchUp(fmt.Sprintf("node %d frozen", leader.Node), began)
	// A leader that was asking the frozen coordinator about a transaction waits for its own request.timeout.ms, 30 s,
	// until it answers.
	require.Less(t, time.Since(began), soak(45*time.Second, 2*2*time.Minute), "the other brokers are there")
	time.Sleep(time.Until(began.Add(d))) //waits:ok the fault lasts
	for _, r := range all {
		r.oracle.Blind(true)
	}
	require.NoError(t, leader.Signal(syscall.SIGCONT))
	time.Sleep(3 * time.Second) //waits:ok it reads its sockets, which no answer reports
	// On a busy machine it takes it longer to learn that it is not a leader.
	require.NoError(t, c.AwaitInSync(all[0].within(patience)))
	for _, r := range all {
		r.oracle.Blind(false)
	}
	abandoned := all.retried("CONNECTION_LOST")
	t.Logf("frozen for %v; %d batches were abandoned with their connection and sent to "+
		"another leader", time.Since(began).Round(time.Second), abandoned)
	require.Positive(t, abandoned)
	all.once()
}

// blameNoOther sees that no relay calls another broker unreachable while one hangs: leaders that wait for it as a
// follower answer.
func (all relays) blameNoOther(frozen *kafka.Broker, until time.Time) {
	t := all[0].T
	t.Helper()
	for time.Now().Before(until) {
		for _, r := range all {
			for _, w := range waits(t, r.p) {
				if w["kind"] == "broker_unreachable" {
					require.Contains(t, fmt.Sprint(w["object"], w["reason"]), frozen.Addr(), "%s: %v", r.name, w)
				}
			}
		}
		time.Sleep(50 * time.Millisecond) //waits:ok the fault lasts
	}
}

func (r *rig) transactionCoordinator(c *kafka.Cluster) *kafka.Broker {
	r.Helper()
	var system string
	require.NoError(r, connect(r.T, r.db.DSN).QueryRow(r.Context(),
		"SELECT system_identifier::text FROM pg_control_system()").Scan(&system))
	id := "cdc-outbox." + system + "." + r.db.Slot
	found := c.Admin().FindTxnCoordinators(r.within(patience), id)
	require.NoError(r, found[id].Err)
	return c.Node(found[id].NodeID)
}
