package broker_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience bounds each wait of a script.
const patience = 30 * time.Second

// versions are what the producer speaks.
var versions = map[kmsg.Key]int16{
	kmsg.Produce: 8, kmsg.Metadata: 8, kmsg.InitProducerID: 4, kmsg.FindCoordinator: 2, kmsg.AddPartitionsToTxn: 3,
	kmsg.AddOffsetsToTxn: 3, kmsg.TxnOffsetCommit: 3, kmsg.EndTxn: 3, kmsg.OffsetFetch: 7, kmsg.OffsetCommit: 7,
	kmsg.CreateTopics: 4,
}

// client is one connection to the cluster's only broker.
type client struct {
	t    testing.TB
	c    cluster
	conn net.Conn
	last uint32
}

func connect(t testing.TB, c cluster) *client {
	t.Helper()
	conn, err := c.dial(context.Background())
	require.NoError(t, err)
	return &client{t: t, c: c, conn: conn}
}

func (c *client) close() { _ = c.conn.Close() }

// ask sends a request and returns its answer.
func (c *client) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	version, ok := versions[kmsg.Key(req.Key())]
	require.True(c.t, ok)
	req.SetVersion(version)
	c.last++
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, c.last)
	b = append(binary.BigEndian.AppendUint16(b, 6), "script"...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	require.NoError(c.t, c.conn.SetDeadline(time.Now().Add(patience)))
	_, err := c.conn.Write(b)
	require.NoError(c.t, err)
	var size [4]byte
	_, err = io.ReadFull(c.conn, size[:])
	require.NoError(c.t, err)
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c.conn, answer)
	require.NoError(c.t, err)
	require.Equal(c.t, c.last, binary.BigEndian.Uint32(answer))
	res := req.ResponseKind()
	res.SetVersion(version)
	body := answer[4:]
	if res.IsFlexible() {
		body = body[1:]
	}
	require.NoError(c.t, res.ReadFrom(body))
	return res
}

// settled repeats a request while the coordinator is busy: it is being elected, or a transaction of the id is ending.
func settled(t testing.TB, one func() int16) int16 {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { //waits:ok a pause
		switch code := one(); code {
		case 14, 15, 16, 51:
			require.True(t, time.Now().Before(until), "code %d stays", code)
		default:
			return code
		}
	}
}

// identity is a producer's.
type identity struct {
	txid  string
	id    int64
	epoch int16
}

// initOnce asks once for an id. Without a transactional id it is one for plain idempotence.
func (c *client) initOnce(txid string, had identity) (identity, int16) {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = c.c.timeout(), had.id, had.epoch
	if txid != "" {
		req.TransactionalID = &txid
	}
	res := c.ask(req).(*kmsg.InitProducerIDResponse)
	return identity{txid, res.ProducerID, res.ProducerEpoch}, res.ErrorCode
}

var none = identity{id: -1, epoch: -1}

// init asks until the coordinator has time.
func (c *client) init(txid string, had identity) (id identity, code int16) {
	c.t.Helper()
	code = settled(c.t, func() (code int16) {
		id, code = c.initOnce(txid, had)
		return code
	})
	return id, code
}

// fresh raises the epoch of a transactional id.
func (c *client) fresh(txid string) identity {
	c.t.Helper()
	id, code := c.init(txid, none)
	require.Zero(c.t, code)
	return id
}

// batch is what a producer sends: the values, from a sequence on.
func batch(id identity, sequence int32, transactional bool, values ...string) []byte {
	b := kmsg.NewRecordBatch()
	b.PartitionLeaderEpoch, b.Magic, b.LastOffsetDelta = -1, 2, int32(len(values)-1)
	b.FirstTimestamp = time.Now().UnixMilli()
	b.MaxTimestamp = b.FirstTimestamp
	b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.NumRecords = id.id, id.epoch, sequence, int32(len(values))
	if transactional {
		b.Attributes = 1 << 4
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte("k"), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself is 0 and so takes a byte
		b.Records = r.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produce sends one batch to partition 0 and returns its offset and the code.
func (c *client) produce(topic string, id identity, sequence int32, transactional bool,
	values ...string,
) (int64, int16) {
	c.t.Helper()
	return c.send(topic, id.txid, transactional, batch(id, sequence, transactional, values...))
}

// send repeats a request whose topic is so new that its broker does not lead it yet.
func (c *client) send(topic, txid string, transactional bool, raw []byte) (at int64, code int16) {
	c.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { //waits:ok a pause
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10_000
		if transactional {
			req.TransactionID = &txid
		}
		part := kmsg.NewProduceRequestTopicPartition()
		part.Records = raw
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		p := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 6 {
			return p.BaseOffset, p.ErrorCode
		}
		require.True(c.t, time.Now().Before(until), "no broker leads %s", topic)
	}
}

// produceInTransaction sends one batch, again while the broker still asks the coordinator (KIP-890).
func (c *client) produceInTransaction(topic string, id identity, sequence int32, values ...string) (code int16) {
	c.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { //waits:ok a pause
		_, code = c.produce(topic, id, sequence, true, values...)
		if code != 19 && code != 51 {
			return code
		}
		require.True(c.t, time.Now().Before(until), "code %d stays", code)
	}
}

func (c *client) addPartitions(id identity, topics ...string) int16 {
	c.t.Helper()
	return settled(c.t, func() int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = id.txid, id.id, id.epoch
		for _, name := range topics {
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = name, []int32{0}
			req.Topics = append(req.Topics, t)
		}
		res := c.ask(req).(*kmsg.AddPartitionsToTxnResponse)
		return res.Topics[0].Partitions[0].ErrorCode
	})
}

func (c *client) addOffsets(id identity, group string) int16 {
	c.t.Helper()
	return settled(c.t, func() int16 {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = id.txid, id.id, id.epoch, group
		return c.ask(req).(*kmsg.AddOffsetsToTxnResponse).ErrorCode
	})
}

func (c *client) commitOffset(id identity, group, topic, metadata string) int16 {
	c.t.Helper()
	return settled(c.t, func() int16 {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = id.txid, id.id, id.epoch, group
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Offset, part.Metadata = 7, &metadata
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		return c.ask(req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// end ends a transaction. An answer that the last one is still ending is an answer here.
func (c *client) endOnce(id identity, commit bool) int16 {
	c.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id.txid, id.id, id.epoch, commit
	return c.ask(req).(*kmsg.EndTxnResponse).ErrorCode
}

func (c *client) end(id identity, commit bool) int16 {
	c.t.Helper()
	return settled(c.t, func() int16 { return c.endOnce(id, commit) })
}

// offset reads what a group has for partition 0 of the topic.
func (c *client) offset(group, topic string, stable bool) (metadata string, at int64, code int16) {
	c.t.Helper()
	code = settled(c.t, func() int16 {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = group, stable
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, t)
		res := c.ask(req).(*kmsg.OffsetFetchResponse)
		if res.ErrorCode != 0 {
			return res.ErrorCode
		}
		p := res.Topics[0].Partitions[0]
		if at = p.Offset; p.Metadata != nil {
			metadata = *p.Metadata
		}
		return p.ErrorCode
	})
	return metadata, at, code
}

// plainCommit commits an offset outside of any transaction and group generation.
func (c *client) plainCommit(group, topic, metadata string) int16 {
	c.t.Helper()
	return settled(c.t, func() int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Offset, part.Metadata = 3, &metadata
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		return c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
}

func (c *client) findCoordinator(key string, kind int8) (node int32, code int16) {
	c.t.Helper()
	code = settled(c.t, func() int16 {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType = key, kind
		res := c.ask(req).(*kmsg.FindCoordinatorResponse)
		node = res.NodeID
		return res.ErrorCode
	})
	return node, code
}

func (c *client) metadata(topic string) (partitions int, leader int32, code int16) {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	res := c.ask(req).(*kmsg.MetadataResponse).Topics[0]
	if len(res.Partitions) > 0 {
		leader = res.Partitions[0].Leader
	}
	return len(res.Partitions), leader, res.ErrorCode
}

func (c *client) createTopic(topic string, partitions int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, t)
	return c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
}
