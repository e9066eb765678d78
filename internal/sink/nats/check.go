package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// judgeStream lists the settings of the stream that lose events or keep the delivery from being kept. Nothing can be
// published to one that fails.
func judgeStream(c *jetstream.StreamConfig, exactlyOnce bool) []preflight.Finding {
	var out []preflight.Finding
	add := func(is bool, level preflight.Level, found, why, remedy string) {
		if is {
			out = append(out, preflight.Finding{
				Level: level, Subject: fmt.Sprintf("stream %q", c.Name), Found: found, Why: why, Remedy: remedy,
			})
		}
	}
	add(c.NoAck, preflight.Fail, "It acknowledges nothing (no_ack).", "Whether an event is stored could not be known.",
		"Set no_ack to false (nats stream edit).")
	add(c.Sealed, preflight.Fail, "It is sealed.", "It takes no messages any more.",
		"Name another stream in nats.stream.")
	add(c.Mirror != nil, preflight.Fail, "It is a mirror.", "It takes messages from its origin only.",
		"Name its origin in nats.stream.")
	add(len(c.Sources) > 0, preflight.Fail, "It has sources.",
		"Their messages come between the connector's, which must be the stream's only writer.",
		"Name a stream of its own in nats.stream, and let another one source it.")
	add(exactlyOnce && c.Retention != jetstream.LimitsPolicy, preflight.Fail,
		fmt.Sprintf("Its retention is %s.", c.Retention), "Its last message, which holds the position, is removed as "+
			"soon as it is consumed: events could be repeated, and delivery is exactly_once.",
		"Use a stream with retention limits, or set delivery to at_least_once.")
	add(c.Retention == jetstream.InterestPolicy, preflight.Warn, "Its retention is interest.",
		"An event is dropped if no consumer exists at the moment it is published.",
		"Create the consumers first, or use a stream with retention limits.")
	add(c.Storage == jetstream.MemoryStorage, preflight.Warn, "It is stored in memory.",
		"Acknowledged events are lost when its servers restart.", "Use a stream with file storage.")
	add(c.Replicas < 3, preflight.Warn, fmt.Sprintf("It has %d replica(s).", c.Replicas),
		"Acknowledged events are lost with the disk of one server.", "Use a stream with 3 replicas, on 3 servers.")
	add(c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0), preflight.Warn,
		"It discards its oldest messages when it is full.", "Events that no consumer has read yet are among them.",
		"Set discard to new: the connector then waits, and nothing is lost; or size the limits for the longest outage "+
			"of a consumer.")
	add(c.MaxMsgsPerSubject > 0, preflight.Warn,
		fmt.Sprintf("It keeps %d message(s) of each subject.", c.MaxMsgsPerSubject),
		"Older events of a topic are removed, whether they are consumed or not.",
		"Raise or remove max_msgs_per_subject.")
	return out
}

// Check looks at the servers and the stream as a Producer would find them, and changes nothing.
func Check(ctx context.Context, c Cluster, exactlyOnce bool, topics []string) []preflight.Finding {
	subject := "nats " + strings.Join(c.Servers, ", ")
	conn, err := c.connect(ctx)
	if err != nil {
		t := connectTrouble(c.Servers, err)
		return []preflight.Finding{
			failed(subject, sentence(t.Sentence), "Nothing can be published.", fault.Do(t.Remedy, t.Commands...)),
		}
	}
	defer conn.Close()
	findings := []preflight.Finding{preflight.Fine(subject, fmt.Sprintf("Connected to a server of version %s.",
		conn.ConnectedServerVersion()))}
	if !conn.HeadersSupported() {
		return append(findings, failed(subject, "The server does not know headers.", "Events carry headers.",
			fault.Do("Upgrade the server to 2.2 or later.")))
	}
	e, err := c.existing().lookAt(ctx, conn)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && c.Create != nil:
		return append(findings, c.uncovered(c.Create.Subjects, "nats.subjects", topics, preflight.Fine(
			fmt.Sprintf("stream %q", c.Stream), "It does not exist; run creates it."))...)
	case err != nil:
		t := streamTrouble(c.Stream, err)
		return append(findings, failed(t.Object, sentence(t.Sentence), "Nothing can be published.",
			fault.Do(t.Remedy, t.Commands...)))
	}
	return append(findings, c.checkStream(e, exactlyOnce, topics)...)
}

// existing is the cluster for questions that create nothing.
func (c Cluster) existing() *Cluster {
	c.Create = nil
	return &c
}

// Takes is nil if the stream takes messages for the subject.
func (c *Cluster) Takes(ctx context.Context, subject string) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return &fault.Error{Kind: fault.Retry, Object: "nats", Err: err}
	}
	defer conn.Close()
	e, err := c.existing().lookAt(ctx, conn)
	if err != nil {
		t := streamTrouble(c.Stream, err)
		return (&fault.Error{Kind: fault.Operator, Object: t.Object, Err: errors.New(t.Sentence)}).With(
			fault.Do(t.Remedy, t.Commands...))
	}
	if !covers(e.info.Config.Subjects, subject) {
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("subject %q", subject),
			Err:  fmt.Errorf("stream %q does not take it, so nothing was decided", c.Stream),
			Next: "Add it to the subjects of the stream (nats stream edit --subjects).",
		}
	}
	return nil
}

func (c *Cluster) checkStream(e *end, exactlyOnce bool, topics []string) []preflight.Finding {
	subject := fmt.Sprintf("stream %q", c.Stream)
	found := preflight.Fine(subject, fmt.Sprintf("It exists, with %d message(s); retention %s, %d replica(s).",
		e.info.State.Msgs, e.info.Config.Retention, e.info.Config.Replicas))
	findings := c.uncovered(e.info.Config.Subjects, "the stream's subjects", topics, found)
	findings = append(findings, judgeStream(&e.info.Config, exactlyOnce)...)
	if m := e.last; m != nil && m.Header.Get(headerRelay) == "" {
		findings = append(findings, preflight.Finding{
			Level: preflight.Warn, Subject: subject,
			Found:  fmt.Sprintf("Its last message, %d on %s, is not a connector's.", m.Sequence, m.Subject),
			Why:    "Another writer makes the connector begin again at each of its messages.",
			Remedy: "Give the other writer another stream.",
		})
	}
	return findings
}

// uncovered lists the topics that no subject covers, after the finding about the stream.
func (c *Cluster) uncovered(subjects []string, key string, topics []string, f preflight.Finding) []preflight.Finding {
	findings := []preflight.Finding{f}
	for _, topic := range topics {
		why := illegalSubject(topic)
		switch {
		case why != "":
			findings = append(findings, failed(fmt.Sprintf("subject %q", topic), sentence(why),
				"Rows that lead there are bad rows.", fault.Do("Correct router.topic, or the rows.")))
		case !covers(subjects, topic):
			findings = append(findings, failed(fmt.Sprintf("subject %q", topic),
				fmt.Sprintf("It is not among %s (%s).", key, strings.Join(subjects, ", ")),
				"The connector would wait at the first event for it.",
				fault.Do("Add it, or correct router.topic.")))
		}
	}
	return findings
}

func failed(subject, found, why string, r fault.Remedy) preflight.Finding {
	return preflight.Finding{Level: preflight.Fail, Subject: subject, Found: found, Why: why}.With(r)
}

// sentence is the text with a capital at its begin and a full stop.
func sentence(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}
