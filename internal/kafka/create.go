package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"
)

// TopicSettings is how a topic is created.
type TopicSettings struct {
	Partitions        int
	ReplicationFactor int
	Config            map[string]string // by Kafka's names
}

// creation is where the creation of a missing topic stands.
type creation struct {
	wanted   bool
	at       time.Time // not before
	failures int
}

// request is the topic's part of a CreateTopics request.
func (s TopicSettings) request(name string) createtopics.RequestTopic {
	t := createtopics.RequestTopic{Name: name, NumPartitions: int32(s.Partitions), ReplicationFactor: int16(s.ReplicationFactor)}
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		t.Configs = append(t.Configs, createtopics.RequestConfig{Name: key, Value: s.Config[key]})
	}
	return t
}

// internalTopic says whether Kafka keeps the name for itself (__consumer_offsets, __transaction_state, …). A row that
// names such a topic must not bring it into being with the wrong settings before the brokers do.
func internalTopic(name string) bool { return strings.HasPrefix(name, "__") }

// wantCreation asks for the topic to be created, and reports false where it is not for us to do. A topic that was
// deleted while nothing waits for it stays deleted.
func (p *Producer) wantCreation(t *topic) bool {
	if p.cfg.CreateTopic == nil || internalTopic(t.name) {
		return false
	}
	if len(t.partitions) == 0 || !t.quiet() {
		t.creation.wanted = true
	}
	return true
}

// creationDue is when the next topic is to be created, zero for never.
func (p *Producer) creationDue() (at time.Time) {
	for _, t := range p.topics {
		if c := t.creation; c.wanted && (at.IsZero() || c.at.Before(at)) {
			at = c.at
			if at.Before(p.control.createAt) {
				at = p.control.createAt
			}
			if at.IsZero() {
				at = time.Now()
			}
		}
	}
	return at
}

// createMissing creates the topics that are due.
func (p *Producer) createMissing(w *wire) error {
	req := &createtopics.Request{}
	p.mu.Lock()
	now := time.Now()
	for _, t := range p.topics {
		if t.creation.wanted && !t.creation.at.After(now) {
			req.Topics = append(req.Topics, p.cfg.CreateTopic(t.name).request(t.name))
		}
	}
	controller := p.control.controller
	p.mu.Unlock()
	slices.SortFunc(req.Topics, func(a, b createtopics.RequestTopic) int { return strings.Compare(a.Name, b.Name) })
	answers, err := createTopics(p.ctx, &p.cfg, w, controller, req, p.control.timeout)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range answers {
		if t := p.topics[answers[i].Name]; t != nil {
			p.created(t, &answers[i])
		}
	}
	p.wantMetadata()
	return nil
}

// created takes the answer. Whatever it says, metadata decides whether the topic is there; where it is not, the next try
// is a while away.
func (p *Producer) created(t *topic, answer *createtopics.ResponseTopic) {
	s := p.cfg.CreateTopic(t.name)
	c := &t.creation
	c.wanted = false
	c.failures++
	c.at = later(p.cfg.pace.delay(c.failures))
	switch answer.ErrorCode {
	case 0:
		p.log.Info("created topic", zap.String("topic", t.name), zap.Int("partitions", s.Partitions), zap.Int("replication_factor", s.ReplicationFactor))
	case topicAlreadyExists: // somebody was quicker, or the broker that we asked for metadata is behind
	default:
		r := p.cfg.creationRefused(t.name, s, answer)
		if !r.passes {
			c.at = later(p.cfg.pace.slowly())
		}
		t.trouble.set(p.log, r.kind, fmt.Sprintf("topic %q", t.name), "The topic does not exist and could not be created: "+r.sentence, r.remedy)
	}
}

// refusal is why a topic is not created, for people.
type refusal struct {
	kind     TroubleKind
	sentence string
	remedy   string
	passes   bool // by itself, soon
}

// creationRefused words the error of a CreateTopics answer. The brokers' own message is about topic and settings, never
// about records.
func (cfg *Config) creationRefused(name string, s TopicSettings, answer *createtopics.ResponseTopic) refusal {
	r := refusal{kind: TopicMissing}
	v := verdictOf(answer.ErrorCode)
	label := v.name
	switch answer.ErrorCode {
	case topicAuthorizationFailed, clusterAuthorizationFailed:
		r.kind, r.remedy = NotAuthorized, cfg.allowCreate(name)
	case invalidPartitions:
		label = "INVALID_PARTITIONS"
		r.remedy = fmt.Sprintf("Correct kafka.topics.partitions or the topic's rule (now %d).", s.Partitions)
	case invalidReplicationFactor:
		label = "INVALID_REPLICATION_FACTOR"
		r.remedy = fmt.Sprintf("Start the missing brokers, or lower kafka.topics.replication_factor or the topic's rule (now %d) to what the cluster has.", s.ReplicationFactor)
	case invalidConfig:
		label = "INVALID_CONFIG"
		r.remedy = "Correct kafka.topics.config or the topic's rule, and restart."
	case policyViolation:
		r.remedy = "The brokers' create.topic.policy.class.name refuses these settings. Correct kafka.topics and restart, or create the topic:\n" + cfg.createTopic(name)
	default:
		r.passes = v.action == rewind || v.action == refresh
		if !r.passes {
			r.remedy = cfg.createTopic(name)
		}
	}
	r.sentence = label + "."
	if m := oneLine(answer.ErrorMessage); m != "" && r.kind != NotAuthorized {
		r.sentence = label + ": " + m
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

// createTopics sends the request to the controller, over w where that is its address or none is known.
func createTopics(ctx context.Context, cfg *Config, w *wire, controller string, req *createtopics.Request, timeout time.Duration) ([]createtopics.ResponseTopic, error) {
	if controller != "" && controller != w.addr {
		c, err := dial(ctx, cfg, controller)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.nc.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
		defer stop()
		w = c
	}
	// The brokers wait for the topics to be known everywhere, and give up before the answer is missed here.
	req.TimeoutMs = int32((timeout * 3 / 4).Milliseconds())
	res, err := w.roundTrip(req, timeout)
	if err != nil {
		return nil, err
	}
	return res.(*createtopics.Response).Topics, nil
}

// controllerOf returns the controller's address, empty where the answer does not name it.
func controllerOf(answer *metadata.Response) string {
	for i := range answer.Brokers {
		if b := &answer.Brokers[i]; b.NodeID == answer.ControllerID {
			return brokerAddr(b.Host, b.Port)
		}
	}
	return ""
}
