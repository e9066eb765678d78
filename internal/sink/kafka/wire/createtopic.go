package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// DefaultPositionTopic is the topic that positions are committed for, unless another is named.
const DefaultPositionTopic = "cdc-outbox.positions"

// TopicSettings is how a topic is created.
type TopicSettings struct {
	Partitions        int
	ReplicationFactor int
	Config            map[string]string // by Kafka's names
}

// Request is the topic's part of a CreateTopics request.
func (s TopicSettings) Request(name string) createtopics.RequestTopic {
	t := createtopics.RequestTopic{
		Name: name, NumPartitions: int32(s.Partitions),
		ReplicationFactor: int16(s.ReplicationFactor),
	}
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		t.Configs = append(t.Configs, createtopics.RequestConfig{Name: key, Value: s.Config[key]})
	}
	return t
}

// InternalTopic reports whether Kafka keeps the name for itself (__consumer_offsets, __transaction_state, …). A row
// that names such a topic must not bring it into being with the wrong settings before the brokers do.
func InternalTopic(name string) bool { return strings.HasPrefix(name, "__") }

// CreationRefusal is why a topic is not created, for people.
type CreationRefusal struct {
	Kind     sink.TroubleKind
	Sentence string
	Remedy   fault.Remedy
	Passes   bool // without an operator, soon
}

// CreationRefused words the error of a CreateTopics answer. The brokers' own message is about topic and settings, never
// about records.
func (c *Cluster) CreationRefused(name string, s TopicSettings, answer *createtopics.ResponseTopic) CreationRefusal {
	r := CreationRefusal{Kind: sink.TopicMissing}
	v := VerdictOf(answer.ErrorCode)
	label := v.Name
	switch answer.ErrorCode {
	case TopicAuthorizationFailed, ClusterAuthorizationFailed:
		r.Kind, r.Remedy = sink.NotAuthorized, c.allowCreate(name)
	case invalidPartitions:
		label = "INVALID_PARTITIONS"
		r.Remedy = fault.Do(fmt.Sprintf("Correct kafka.topics.partitions or the topic's rule (now %d).", s.Partitions))
	case invalidReplicationFactor:
		label = "INVALID_REPLICATION_FACTOR"
		r.Remedy = fault.Do(fmt.Sprintf("Start the missing brokers, or lower kafka.topics.replication_factor or the "+
			"topic's rule (now %d) to what the cluster has.", s.ReplicationFactor))
	case invalidConfig:
		label = "INVALID_CONFIG"
		r.Remedy = fault.Do("Correct kafka.topics.config or the topic's rule, and restart.")
	case InvalidTopic: // by hand it gets the same answer
		r.Remedy = fault.Do("Kafka does not take this name: another topic differs from it in \".\" and \"_\" only, " +
			"or it has a character that no name may have. Correct what makes the name, or delete the other topic.")
	case policyViolation:
		r.Remedy = fault.Do("The brokers' create.topic.policy.class.name refuses these settings. Correct kafka.topics "+
			"and restart, or create the topic.", c.CreateTopicByHand(name).Commands...)
	default:
		r.Passes = v.Action == Rewind || v.Action == Refresh
		if !r.Passes {
			r.Remedy = c.CreateTopicByHand(name)
		}
	}
	r.Sentence = label + "."
	if m := oneLine(answer.ErrorMessage); m != "" && r.Kind != sink.NotAuthorized {
		r.Sentence = label + ": " + m
	}
	return r
}

// oneLine makes a foreign text fit for a sentence.
func oneLine(s string) string {
	const longest = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// CreateTopics sends the request to the controller, over w where that is its address or none is known.
func CreateTopics(
	ctx context.Context, cluster *Cluster, w *Conn, controller string, req *createtopics.Request, timeout time.Duration,
) ([]createtopics.ResponseTopic, error) {
	if controller != "" && controller != w.Addr {
		c, err := Dial(ctx, cluster, controller)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		defer stop()
		w = c
	}
	// The brokers wait for the topics to be known everywhere, and give up before the answer is missed here.
	req.TimeoutMs = int32((timeout * 3 / 4).Milliseconds())
	res, err := w.RoundTrip(req, timeout)
	if err != nil {
		return nil, err
	}
	return res.(*createtopics.Response).Topics, nil
}
