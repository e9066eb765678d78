package kafka

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// creation is the state of the creation of a missing topic.
type creation struct {
	wanted   bool
	at       time.Time // not before
	failures int
}

// wantCreation asks for the topic to be created, and reports false where it is not for us to do. A topic that was
// deleted while nothing waits for it stays deleted.
func (t *topic) wantCreation(c *Config) bool {
	if c.CreateTopic == nil || wire.InternalTopic(t.name) {
		return false
	}
	if len(t.partitions) == 0 || t.unplaced != nil || !t.quiet() {
		t.creation.wanted = true
	}
	return true
}

// creationDue is when the next topic is to be created, zero for never.
func (all topics) creationDue(notBefore time.Time) (at time.Time) {
	for _, t := range all {
		if c := t.creation; c.wanted && (at.IsZero() || c.at.Before(at)) {
			at = c.at
			if at.Before(notBefore) {
				at = notBefore
			}
			if at.IsZero() {
				at = time.Now()
			}
		}
	}
	return at
}

// createdAtOnce is how many partitions one request creates, or one topic. A KRaft controller refuses a request that
// needs more than 10,000 records in its log (QuorumController.MAX_RECORDS_PER_USER_OP).
const createdAtOnce = 1200

// createMissing creates topics that are due, in portions.
func (p *Producer) createMissing(w *wire.Conn) error {
	req := &createtopics.Request{}
	p.mu.Lock()
	now := time.Now()
	var due []string
	for _, t := range p.topics {
		if t.creation.wanted && !t.creation.at.After(now) {
			due = append(due, t.name)
		}
	}
	slices.Sort(due)
	partitions := 0
	for _, name := range due {
		s := p.cfg.CreateTopic(name)
		if partitions += max(s.Partitions, 1); partitions > createdAtOnce && len(req.Topics) > 0 {
			break
		}
		req.Topics = append(req.Topics, s.Request(name))
	}
	controller := p.control.controller
	p.mu.Unlock()
	answers, err := wire.CreateTopics(p.ctx, &p.cfg.Cluster, w, controller, req, p.control.timeout)
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
	p.control.wantMetadata()
	return nil
}

// created takes the answer. Whatever it says, metadata decides whether the topic is there; where it is not, the next
// try is a while away.
func (p *Producer) created(t *topic, answer *createtopics.ResponseTopic) {
	s := p.cfg.CreateTopic(t.name)
	c := &t.creation
	c.wanted = false
	c.failures++
	c.at = later(p.cfg.pace.delay(c.failures))
	switch answer.ErrorCode {
	case 0:
		t.madeAt = time.Now()
		p.log.Info("created topic", zap.String(logkey.Topic, t.name), zap.Int(logkey.Partitions, s.Partitions),
			zap.Int(logkey.ReplicationFactor, s.ReplicationFactor))
	case wire.TopicAlreadyExists: // another program was quicker, or the broker that we asked for metadata is behind
	default:
		r := p.cfg.CreationRefused(t.name, s, answer)
		if answer.ErrorCode == wire.InvalidTopic {
			p.refuseName(t, strings.TrimSuffix(r.Sentence, "."))
			c.at = later(p.cfg.pace.slowly())
			return
		}
		if !r.Passes {
			c.at = later(p.cfg.pace.slowly())
		}
		t.trouble.set(&p.troubles, r.Kind, fmt.Sprintf("topic %q", t.name),
			"The topic does not exist and could not be created: "+r.Sentence, r.Remedy)
	}
}
