package broker

import (
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
)

// The codes that the stand-in answers with.
const (
	codeUnknownTopic         = 3
	codeTooLarge             = 10
	codeNotLeader            = 6
	codeNotCoordinator       = 16
	codeTopicExists          = 36
	codeOutOfOrder           = 45
	codeInvalidEpoch         = 47
	codeInvalidTxnState      = 48
	codeInvalidMapping       = 49
	codeConcurrent           = 51
	codeUnstableOffset       = 88
	codeFenced               = 90
	maxFrame            uint = 64 << 20
)

// versions are the highest that are offered; all from the first on that has what is used.
var versions = map[kmsg.Key][2]int16{
	kmsg.Produce: {3, 8}, kmsg.Metadata: {1, 8}, kmsg.ApiVersions: {0, 0}, kmsg.InitProducerID: {0, 4},
	kmsg.FindCoordinator: {0, 2}, kmsg.AddPartitionsToTxn: {0, 3}, kmsg.AddOffsetsToTxn: {0, 3},
	kmsg.TxnOffsetCommit: {0, 3}, kmsg.EndTxn: {0, 3}, kmsg.OffsetFetch: {0, 7}, kmsg.OffsetCommit: {2, 7},
	kmsg.DescribeConfigs: {0, 3}, kmsg.CreateTopics: {0, 4},
}

// serve is one connection: a broker answers its requests in order.
func (c *Cluster) serve(conn *network.Conn, node int32) {
	defer func() { _ = conn.Close() }()
	var size [4]byte
	for {
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if uint(n) > maxFrame {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		answer, fate := c.answer(node, frame)
		if answer == nil || fate.Lost {
			conn.Reset()
			return
		}
		if fate.Answer > 0 {
			time.Sleep(fate.Answer)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// answer works on one request. Nil: the connection is to be closed.
func (c *Cluster) answer(node int32, frame []byte) ([]byte, Fate) {
	if len(frame) < 10 {
		return nil, Fate{}
	}
	key := int16(binary.BigEndian.Uint16(frame))
	version := int16(binary.BigEndian.Uint16(frame[2:]))
	id := binary.BigEndian.Uint32(frame[4:])
	body := frame[10:]
	if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 {
		body = body[n:]
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, Fate{}
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		body = body[1:] // the header's tagged fields: none
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, Fate{}
	}
	var fate Fate
	c.mu.Lock()
	c.requests++
	n := c.requests
	decide := c.Fate
	c.mu.Unlock()
	if decide != nil && key != int16(kmsg.ApiVersions) {
		fate = decide(n, node, key)
	}
	if fate.Delay > 0 {
		time.Sleep(fate.Delay)
	}
	c.mu.Lock()
	if c.down[node] {
		c.mu.Unlock()
		return nil, fate
	}
	var res kmsg.Response
	if fate.Busy != 0 {
		res = refused(req, fate.Busy)
	}
	if res == nil {
		res = c.handle(node, req, fate)
	}
	c.mu.Unlock()
	if res == nil {
		return nil, fate
	}
	res.SetVersion(version)
	out := binary.BigEndian.AppendUint32(make([]byte, 4, 128), id)
	if res.IsFlexible() && key != int16(kmsg.ApiVersions) {
		out = append(out, 0)
	}
	out = res.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, fate
}

// handle is called with the lock held.
func (c *Cluster) handle(node int32, req kmsg.Request, fate Fate) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return apiVersions()
	case *kmsg.MetadataRequest:
		return c.metadata(req)
	case *kmsg.ProduceRequest:
		return c.produce(node, req, fate)
	case *kmsg.InitProducerIDRequest:
		return c.initProducerID(node, req)
	case *kmsg.FindCoordinatorRequest:
		return c.findCoordinator(req)
	case *kmsg.AddPartitionsToTxnRequest:
		return c.addPartitions(node, req)
	case *kmsg.AddOffsetsToTxnRequest:
		return c.addOffsets(node, req)
	case *kmsg.TxnOffsetCommitRequest:
		return c.txnOffsetCommit(node, req)
	case *kmsg.EndTxnRequest:
		return c.endTxn(node, req)
	case *kmsg.OffsetFetchRequest:
		return c.offsetFetch(node, req)
	case *kmsg.OffsetCommitRequest:
		return c.offsetCommit(node, req)
	case *kmsg.DescribeConfigsRequest:
		return describeConfigs(req)
	case *kmsg.CreateTopicsRequest:
		return c.createTopics(req)
	}
	return nil
}

func apiVersions() kmsg.Response {
	res := kmsg.NewPtrApiVersionsResponse()
	for key, v := range versions {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = int16(key), v[0], v[1]
		res.ApiKeys = append(res.ApiKeys, k)
	}
	slices.SortFunc(res.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey - b.ApiKey) })
	return res
}

func (c *Cluster) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	res := kmsg.NewPtrMetadataResponse()
	for id := range int32(c.cfg.Brokers) {
		if !c.down[id] {
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = id, Address(id)[:len(Address(id))-5], 9092
			res.Brokers = append(res.Brokers, b)
		}
	}
	res.ControllerID = c.coordinator()
	res.ClusterID = kmsg.StringPtr(ClusterID)
	for _, asked := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = asked.Topic
		partitions, ok := c.partitions[*asked.Topic]
		if !ok {
			t.ErrorCode = codeUnknownTopic
		}
		for _, p := range partitions {
			m := kmsg.NewMetadataResponseTopicPartition()
			m.Partition, m.Leader, m.LeaderEpoch = p.Index, p.leader, p.epoch
			m.Replicas, m.ISR = []int32{p.leader}, []int32{p.leader}
			if c.down[p.leader] {
				m.Leader, m.ErrorCode = -1, 5
			}
			t.Partitions = append(t.Partitions, m)
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}

func (c *Cluster) findCoordinator(*kmsg.FindCoordinatorRequest) kmsg.Response {
	res := kmsg.NewPtrFindCoordinatorResponse()
	id := c.coordinator()
	res.NodeID, res.Host, res.Port = id, Address(id)[:len(Address(id))-5], 9092
	return res
}

func describeConfigs(req *kmsg.DescribeConfigsRequest) kmsg.Response {
	res := kmsg.NewPtrDescribeConfigsResponse()
	for _, asked := range req.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
		res.Resources = append(res.Resources, r)
	}
	return res
}

func (c *Cluster) createTopics(req *kmsg.CreateTopicsRequest) kmsg.Response {
	res := kmsg.NewPtrCreateTopicsResponse()
	for _, asked := range req.Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic = asked.Topic
		if _, ok := c.partitions[asked.Topic]; ok {
			t.ErrorCode = codeTopicExists
		} else {
			c.create(asked.Topic, max(1, asked.NumPartitions))
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}
