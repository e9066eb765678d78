package broker_test

import (
	"time"

	"github.com/stretchr/testify/require"
)

func notAdded(c *client, k cluster) {
	k.topic("added")
	k.topic("not-added")
	id := c.fresh("not-added")
	require.EqualValues(c.t, invalidTxnState, c.produceInTransaction("added", id, 0, "a"), "no transaction")
	require.EqualValues(c.t, ok, c.addPartitions(id, "added"))
	require.EqualValues(c.t, ok, c.produceInTransaction("added", id, 0, "a"))
	require.EqualValues(c.t, invalidTxnState, c.produceInTransaction("not-added", id, 0, "a"))
	require.EqualValues(c.t, unknownTopic, c.addPartitions(id, "nowhere"))
	require.EqualValues(c.t, ok, c.end(id, true))
	require.EqualValues(c.t, ok, c.end(id, true), "so it has ended")
	require.EqualValues(c.t, invalidTxnState, c.produceInTransaction("added", id, 1, "b"), "after its end")
	require.Equal(c.t, []string{"a"}, k.committed("added"))
	require.Empty(c.t, k.committed("not-added"))
}

func ends(c *client, k cluster) {
	k.topic("ends")
	id := c.fresh("ends")
	require.EqualValues(c.t, invalidTxnState, c.end(id, true), "there is none")
	require.EqualValues(c.t, invalidTxnState, c.end(id, false), "there is none")
	for _, commit := range []bool{true, false} {
		require.EqualValues(c.t, ok, c.addPartitions(id, "ends"))
		require.EqualValues(c.t, ok, c.endOnce(id, commit))
		again := c.endOnce(id, commit) // its answer was lost
		require.Contains(c.t, []int16{ok, concurrent}, again)
		require.EqualValues(c.t, ok, c.end(id, commit))
		require.EqualValues(c.t, invalidTxnState, c.end(id, !commit))
	}
	_, code := c.init("ends", id)
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, fenced, c.end(id, false), "an old epoch")
	require.EqualValues(c.t, invalidMapping, c.end(identity{"ends", id.id + 1000, 0}, false))
	require.EqualValues(c.t, invalidMapping, c.end(identity{"never", id.id, 0}, false))
}

func fencesTransactions(c *client, k cluster) {
	k.topic("fenced-1")
	k.topic("fenced-2")
	a := c.fresh("fences-txn")
	require.EqualValues(c.t, ok, c.addPartitions(a, "fenced-1"))
	require.EqualValues(c.t, ok, c.produceInTransaction("fenced-1", a, 0, "a"))
	_, code := c.initOnce("fences-txn", none)
	require.EqualValues(c.t, concurrent, code, "the open one is aborted first")
	b := c.fresh("fences-txn")
	require.EqualValues(c.t, 2, b.epoch, "one for the abort, one for the successor")
	require.EqualValues(c.t, fenced, c.addPartitions(a, "fenced-2"))
	require.EqualValues(c.t, fenced, c.addOffsets(a, "fences-group"))
	require.EqualValues(c.t, fenced, c.end(a, true))
	require.EqualValues(c.t, fenced, c.end(a, false))
	require.EqualValues(c.t, invalidEpoch, c.produceInTransaction("fenced-1", a, 1, "late"))
	require.EqualValues(c.t, invalidEpoch, c.produceInTransaction("fenced-2", a, 0, "late"))
	_, code = c.init("fences-txn", a)
	require.EqualValues(c.t, fenced, code)
	require.EqualValues(c.t, ok, c.addPartitions(b, "fenced-1"))
	require.EqualValues(c.t, ok, c.produceInTransaction("fenced-1", b, 0, "b"))
	require.EqualValues(c.t, ok, c.end(b, true))
	require.EqualValues(c.t, ok, c.end(b, true), "so it has ended")
	require.Equal(c.t, []string{"b"}, k.committed("fenced-1"))
	require.Empty(c.t, k.committed("fenced-2"))
}

// ownerAborts: InitProducerID with an id and epoch aborts an open transaction whatever the epoch is.
func ownerAborts(c *client, k cluster) {
	k.topic("owner")
	a := c.fresh("owner")
	require.EqualValues(c.t, ok, c.addPartitions(a, "owner"))
	require.EqualValues(c.t, ok, c.produceInTransaction("owner", a, 0, "a"))
	_, code := c.initOnce("owner", a)
	require.EqualValues(c.t, concurrent, code)
	afterAbort(c, k, a)
	require.Empty(c.t, k.committed("owner"))
}

// afterAbort: the coordinator has raised the epoch for an abort. Kafka 4 takes the owner's question with the epoch
// before for one whose answer was lost.
func afterAbort(c *client, k cluster, a identity) {
	next, code := c.init(a.txid, a)
	if k.kafka4() {
		require.EqualValues(c.t, ok, code)
		require.Equal(c.t, identity{a.txid, a.id, 1}, next)
	} else {
		require.EqualValues(c.t, fenced, code)
	}
	require.EqualValues(c.t, 2, c.fresh(a.txid).epoch)
}

func offsets(c *client, k cluster) {
	k.topic("offsets")
	id := c.fresh("offsets")
	const group = "offsets-group"
	_, at, code := c.offset(group, "offsets", true)
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, -1, at)
	was := ""
	for i, commit := range []bool{true, false, true} {
		now := string(rune('a' + i))
		require.EqualValues(c.t, ok, c.addOffsets(id, group))
		require.EqualValues(c.t, ok, c.commitOffset(id, group, "offsets", now))
		_, _, code = c.offset(group, "offsets", true)
		require.EqualValues(c.t, unstableOffset, code)
		text, _, code := c.offset(group, "offsets", false)
		require.EqualValues(c.t, ok, code)
		require.Equal(c.t, was, text, "what is pending is not there")
		require.EqualValues(c.t, ok, c.end(id, commit))
		if commit {
			was = now
		}
		for code = unstableOffset; code == unstableOffset; time.Sleep(5 * time.Millisecond) { //waits:ok a pause
			text, at, code = c.offset(group, "offsets", true)
		}
		require.EqualValues(c.t, ok, code)
		require.Equal(c.t, was, text)
		require.EqualValues(c.t, 7, at)
	}
}

func plainOffsets(c *client, k cluster) {
	k.topic("plain-offsets")
	require.EqualValues(c.t, ok, c.plainCommit("plain-group", "plain-offsets", "x"))
	text, at, code := c.offset("plain-group", "plain-offsets", true)
	require.EqualValues(c.t, ok, code)
	require.EqualValues(c.t, 3, at)
	require.Equal(c.t, "x", text)
	require.EqualValues(c.t, ok, c.plainCommit("plain-group", "plain-offsets", "y"))
	text, _, _ = c.offset("plain-group", "plain-offsets", true)
	require.Equal(c.t, "y", text)
	require.EqualValues(c.t, unknownTopic, c.plainCommit("plain-group", "nowhere", "x"))
}

func strayOffsets(c *client, k cluster) {
	k.topic("stray")
	id := c.fresh("stray")
	require.EqualValues(c.t, invalidTxnState, c.commitOffset(id, "stray-group", "stray", "x"), "no transaction")
	require.EqualValues(c.t, ok, c.addPartitions(id, "stray"))
	require.EqualValues(c.t, invalidTxnState, c.commitOffset(id, "stray-group", "stray", "x"), "not announced")
	require.EqualValues(c.t, ok, c.addOffsets(id, "stray-group"))
	require.EqualValues(c.t, ok, c.commitOffset(id, "stray-group", "stray", "x"))
	require.EqualValues(c.t, ok, c.end(id, true))
	_ = c.fresh("stray")
	require.EqualValues(c.t, invalidEpoch, c.commitOffset(id, "stray-group", "stray", "late"))
	other := identity{"stray", id.id + 1000, 1}
	require.EqualValues(c.t, invalidMapping, c.commitOffset(other, "stray-group", "stray", "x"))
	text, _, code := c.offset("stray-group", "stray", true)
	require.EqualValues(c.t, ok, code)
	require.Equal(c.t, "x", text)
}

func timesOut(c *client, k cluster) {
	k.topic("times-out")
	a := c.fresh("times-out")
	require.EqualValues(c.t, ok, c.addPartitions(a, "times-out"))
	require.EqualValues(c.t, ok, c.produceInTransaction("times-out", a, 0, "a"))
	//waits:ok a broker looks for transactions that are over their time now and then
	time.Sleep(time.Duration(k.timeout())*time.Millisecond + 3*time.Second)
	require.EqualValues(c.t, fenced, c.end(a, true))
	require.EqualValues(c.t, invalidEpoch, c.produceInTransaction("times-out", a, 1, "late"))
	require.Empty(c.t, k.committed("times-out"))
	afterAbort(c, k, a)
}

func unknownTransactionalID(c *client, k cluster) {
	k.topic("unknown-txn")
	other := c.fresh("known-txn")
	id := identity{"unknown-txn", other.id, other.epoch}
	require.EqualValues(c.t, invalidMapping, c.addPartitions(id, "unknown-txn"))
	require.EqualValues(c.t, invalidMapping, c.addOffsets(id, "unknown-group"))
	require.EqualValues(c.t, invalidMapping, c.end(id, true))
	require.EqualValues(c.t, invalidMapping, c.produceInTransaction("unknown-txn", id, 0, "a"))
}
