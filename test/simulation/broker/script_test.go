package broker_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/broker"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// cluster is what a script runs against: the stand-in, or one real broker.
type cluster interface {
	dial(context.Context) (net.Conn, error)
	topic(name string) // of one partition
	deleteTopic(name string)
	committed(topic string) []string // what a consumer sees with read_committed, when no transaction is open
	timeout() int32                  // of transactions, in ms
	kafka4() bool                    // of that major version
}

// The codes that scripts expect.
const (
	ok                  = 0
	unknownTopic        = 3
	tooLarge            = 10
	topicExists         = 36
	outOfOrder          = 45
	invalidEpoch        = 47
	invalidTxnState     = 48
	invalidMapping      = 49
	concurrent          = 51
	unstableOffset      = 88
	fenced              = 90
	standInTimeout      = 2 * time.Second
	largest         int = 1048588 // max.message.bytes
)

// scripts hold for the stand-in and for a real broker alike.
var scripts = []struct {
	name string
	run  func(*client, cluster)
}{
	{"metadata and creation of topics", topics},
	{"coordinators are found", coordinators},
	{"each id without transactions is a new one", plainIDs},
	{"a transactional id keeps its producer id and raises its epoch", raises},
	{"a producer keeps its id by naming id and epoch", keeps},
	{"sequences: gaps, repeats and what is too old", sequences},
	{"a new epoch begins with sequence 0", epochs},
	{"an id that a partition does not know may begin anywhere", unknownID},
	{"epochs fence batches without transactions, from the successor's first batch on", fencesPlainBatches},
	{"a batch that is too large", large},
	{"a topic that is deleted and created again", recreated},
	{"a transaction is seen when it is committed, and never when it is aborted", transactions},
	{"a partition that was not added", notAdded},
	{"EndTxn again, and the other way, and without a transaction", ends},
	{"a successor's InitProducerID aborts and fences", fencesTransactions},
	{"the owner's own InitProducerID aborts", ownerAborts},
	{"offsets within a transaction, and require_stable", offsets},
	{"offsets without a transaction", plainOffsets},
	{"an offset commit that was not announced, and one by an old epoch", strayOffsets},
	{"a transaction that takes too long", timesOut},
	{"an id that the coordinator does not know", unknownTransactionalID},
}

// standIn is the simulation's cluster.
type standIn struct {
	net   *network.Network
	kafka *broker.Cluster
	four  bool
}

// TestScripts runs what the simulation takes for granted against the stand-in. TestRealScripts runs it against Kafka.
func TestScripts(t *testing.T) {
	for name, kafka4 := range map[string]bool{"Kafka 3": false, "Kafka 4": true} {
		for _, s := range scripts {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newStandIn(kafka4)
					defer c.close()
					cl := connect(t, c)
					defer cl.close()
					s.run(cl, c)
				})
			})
		}
	}
}

func TestMain(m *testing.M) { testkit.Main(m) }

func newStandIn(kafka4 bool) *standIn {
	n := network.New(1)
	cfg := broker.Config{Brokers: 1, MarkerTime: 3 * time.Millisecond, Kafka4: kafka4}
	return &standIn{n, broker.New(cfg, n), kafka4}
}

func (s *standIn) close() {
	s.net.Close()
	time.Sleep(time.Minute) //waits:ok in a bubble, until every goroutine has noticed
}

func (s *standIn) dial(ctx context.Context) (net.Conn, error) {
	return s.net.Dialer("a1")(ctx, "tcp", broker.Address(0))
}
func (s *standIn) topic(name string)       { s.kafka.Create(name, 1) }
func (s *standIn) deleteTopic(name string) { s.kafka.Delete(name) }
func (s *standIn) kafka4() bool            { return s.four }
func (s *standIn) timeout() int32          { return int32(standInTimeout.Milliseconds()) }

func (s *standIn) committed(topic string) (values []string) {
	for _, p := range s.kafka.Partitions() {
		for i := range p.Log {
			if p.Topic == topic && p.Log[i].Committed() {
				values = append(values, p.Log[i].Value)
			}
		}
	}
	return values
}

func topics(c *client, _ cluster) {
	_, _, code := c.metadata("new")
	require.EqualValues(c.t, unknownTopic, code)
	require.EqualValues(c.t, ok, c.createTopic("new", 3))
	require.EqualValues(c.t, topicExists, c.createTopic("new", 3))
	n, leader, code := c.metadata("new")
	for until := time.Now().Add(patience); code != ok && time.Now().Before(until); n, leader, code = c.metadata("new") {
		time.Sleep(20 * time.Millisecond) //waits:ok a pause
	}
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, 3, n)
	node, code := c.findCoordinator("g", 0)
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, node, leader, "the only broker")
	_, code = c.produce("never", none, 0, false, "a")
	require.EqualValues(c.t, unknownTopic, code)
}

func coordinators(c *client, _ cluster) {
	group, code := c.findCoordinator("group", 0)
	require.EqualValues(c.t, ok, code)
	txn, code := c.findCoordinator("txn", 1)
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, group, txn, "the only broker")
}

func plainIDs(c *client, _ cluster) {
	seen := map[int64]bool{}
	for range 3 {
		id, code := c.init("", none)
		require.EqualValues(c.t, ok, code)
		require.Zero(c.t, id.epoch)
		require.False(c.t, seen[id.id])
		seen[id.id] = true
	}
}

func raises(c *client, _ cluster) {
	first := c.fresh("raises")
	require.Zero(c.t, first.epoch)
	for epoch := int16(1); epoch < 4; epoch++ {
		require.Equal(c.t, identity{"raises", first.id, epoch}, c.fresh("raises"))
	}
	require.NotEqual(c.t, first.id, c.fresh("another").id)
}

func keeps(c *client, _ cluster) {
	first := c.fresh("keeps")
	second, code := c.init("keeps", first)
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, identity{"keeps", first.id, 1}, second)
	again, code := c.init("keeps", first) // its answer was lost
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, second, again)
	third, code := c.init("keeps", second)
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, 2, third.epoch)
	_, code = c.init("keeps", first)
	require.EqualValues(c.t, fenced, code, "older than the last")
	other := c.fresh("keeps")
	require.EqualValues(c.t, 3, other.epoch)
	_, code = c.init("keeps", third)
	require.EqualValues(c.t, fenced, code, "another one raised it")
	_, code = c.init("keeps", identity{"keeps", first.id + 1000, 3})
	require.EqualValues(c.t, fenced, code, "another producer id")
	last, code := c.init("keeps", other)
	require.EqualValues(c.t, ok, code, "a refused one changes nothing")
	require.EqualValues(c.t, 4, last.epoch)
}

func sequences(c *client, k cluster) {
	k.topic("sequences")
	id, _ := c.init("", none)
	for s := range int32(7) {
		at, code := c.produce("sequences", id, s, false, "a")
		require.EqualValues(c.t, ok, code)
		require.EqualValues(c.t, s, at)
	}
	for s := int32(2); s < 7; s++ { // the last five are known
		at, code := c.produce("sequences", id, s, false, "a")
		require.EqualValues(c.t, ok, code)
		require.EqualValues(c.t, s, at, "where it was the first time")
	}
	_, code := c.produce("sequences", id, 1, false, "a")
	require.EqualValues(c.t, outOfOrder, code, "too old to be known")
	_, code = c.produce("sequences", id, 5, false, "a", "b")
	require.EqualValues(c.t, outOfOrder, code, "a repeat with other ends is none")
	_, code = c.produce("sequences", id, 8, false, "a")
	require.EqualValues(c.t, outOfOrder, code, "a gap")
	at, code := c.produce("sequences", id, 7, false, "a", "b", "c")
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, 7, at)
	at, code = c.produce("sequences", id, 10, false, "a")
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, 10, at)
	require.Len(c.t, k.committed("sequences"), 11)
}

func epochs(c *client, k cluster) {
	k.topic("epochs")
	old := c.fresh("epochs")
	_, code := c.produce("epochs", old, 0, false, "a")
	require.EqualValues(c.t, ok, code)
	id := c.fresh("epochs")
	_, code = c.produce("epochs", id, 1, false, "b")
	require.EqualValues(c.t, outOfOrder, code, "not with another sequence")
	_, code = c.produce("epochs", old, 1, false, "c")
	require.EqualValues(c.t, ok, code, "a refused batch fences nothing")
	_, code = c.produce("epochs", id, 0, false, "d")
	require.EqualValues(c.t, ok, code)
	_, code = c.produce("epochs", old, 2, false, "e")
	require.EqualValues(c.t, invalidEpoch, code)
	_, code = c.produce("epochs", old, 1, false, "c")
	require.EqualValues(c.t, invalidEpoch, code, "nor a repeat")
	_, code = c.produce("epochs", id, 1, false, "f")
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, []string{"a", "c", "d", "f"}, k.committed("epochs"))
}

func unknownID(c *client, k cluster) {
	k.topic("unknown-id")
	id, _ := c.init("", none)
	_, code := c.produce("unknown-id", id, 41, false, "a")
	require.EqualValues(c.t, ok, code)
	_, code = c.produce("unknown-id", id, 43, false, "a")
	require.EqualValues(c.t, outOfOrder, code)
	_, code = c.produce("unknown-id", id, 42, false, "a")
	require.EqualValues(c.t, ok, code)
}

func fencesPlainBatches(c *client, k cluster) {
	k.topic("fence-1")
	k.topic("fence-2")
	a := c.fresh("fences")
	for _, topic := range []string{"fence-1", "fence-2"} {
		_, code := c.produce(topic, a, 0, false, "a0")
		require.EqualValues(c.t, ok, code)
	}
	b := c.fresh("fences")
	_, code := c.produce("fence-1", b, 0, false, "b0")
	require.EqualValues(c.t, ok, code)
	_, code = c.produce("fence-1", a, 1, false, "a1")
	require.EqualValues(c.t, invalidEpoch, code)
	_, code = c.produce("fence-2", a, 1, false, "a1")
	require.EqualValues(c.t, ok, code, "the successor has not written there")
	_, code = c.init("fences", a)
	require.EqualValues(c.t, fenced, code)
	require.Equal(c.t, []string{"a0", "b0"}, k.committed("fence-1"))
	require.Equal(c.t, []string{"a0", "a1"}, k.committed("fence-2"))
}

func large(c *client, k cluster) {
	k.topic("large")
	id, _ := c.init("", none)
	over := len(batch(id, 0, false, strings.Repeat("x", largest-200))) - (largest - 200)
	_, code := c.produce("large", id, 0, false, strings.Repeat("x", largest-over+1))
	require.EqualValues(c.t, tooLarge, code)
	at, code := c.produce("large", id, 0, false, strings.Repeat("x", largest-over))
	require.EqualValues(c.t, ok, code, "the refused batch took no sequence")
	require.Zero(c.t, at)
}

func recreated(c *client, k cluster) {
	k.topic("recreated")
	id, _ := c.init("", none)
	for s := range int32(3) {
		_, code := c.produce("recreated", id, s, false, "old")
		require.EqualValues(c.t, ok, code)
	}
	k.deleteTopic("recreated")
	_, code := c.produce("recreated", id, 3, false, "lost")
	require.EqualValues(c.t, unknownTopic, code)
	_, _, code = c.metadata("recreated")
	require.EqualValues(c.t, unknownTopic, code)
	k.topic("recreated")
	at, code := c.produce("recreated", id, 3, false, "new")
	require.EqualValues(c.t, ok, code, "what the old one knew is not known any more")
	require.Zero(c.t, at)
	require.Equal(c.t, []string{"new"}, k.committed("recreated"))
}

func transactions(c *client, k cluster) {
	k.topic("t-1")
	k.topic("t-2")
	id := c.fresh("transactions")
	sequence := int32(0)
	for _, commit := range []bool{true, false, true} {
		name := map[bool]string{true: "kept", false: "undone"}[commit]
		require.EqualValues(c.t, ok, c.addPartitions(id, "t-1", "t-2"))
		require.EqualValues(c.t, ok, c.addPartitions(id, "t-1"), "again")
		require.EqualValues(c.t, ok, c.produceInTransaction("t-1", id, sequence, name))
		require.EqualValues(c.t, ok, c.produceInTransaction("t-1", id, sequence, name), "a repeat")
		require.EqualValues(c.t, ok, c.produceInTransaction("t-2", id, sequence, name))
		sequence++
		require.EqualValues(c.t, ok, c.end(id, commit))
	}
	require.EqualValues(c.t, ok, c.end(id, true), "so the last one has ended")
	require.Equal(c.t, []string{"kept", "kept"}, k.committed("t-1"))
	require.Equal(c.t, []string{"kept", "kept"}, k.committed("t-2"))
}
