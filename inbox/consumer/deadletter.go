package consumer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
)

// Headers of a dead letter, in front of the record's own, which stay as they are; so do key and value.
const (
	HeaderReason    = "dlt-reason"           // the handler's last error
	HeaderAttempts  = "dlt-attempts"         // how often it was tried
	HeaderGroup     = "dlt-group"            // which group couldn't handle it
	HeaderFailedAt  = "dlt-failed-at"        // RFC 3339
	HeaderTopic     = "dlt-origin-topic"     // where the record was
	HeaderPartition = "dlt-origin-partition" //
	HeaderOffset    = "dlt-origin-offset"    //
	HeaderTimestamp = "dlt-origin-timestamp" // of the record, milliseconds
	HeaderCut       = "dlt-cut"              // there if the letter would have been too large: what was left out, see cut; the origin still has it

	headerPrefix = "dlt-"
	maxReason    = 1 << 10
)

// letter is a record to be put aside.
type letter struct {
	Message
	reason   string
	attempts int
}

// record is what goes to the dead-letter topic. Headers of an earlier burial give way.
func (l letter) record(group, topic string, now time.Time) kafka.Message {
	reason := strings.ToValidUTF8(l.reason, "\uFFFD")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	var headers []kafka.Header
	for _, h := range [][2]string{
		{HeaderReason, reason}, {HeaderAttempts, strconv.Itoa(l.attempts)}, {HeaderGroup, group}, {HeaderFailedAt, now.UTC().Format(time.RFC3339Nano)},
		{HeaderTopic, l.Topic}, {HeaderPartition, strconv.Itoa(l.Partition)}, {HeaderOffset, strconv.FormatInt(l.Offset, 10)},
		{HeaderTimestamp, strconv.FormatInt(l.Time.UnixMilli(), 10)},
	} {
		headers = append(headers, kafka.Header{Key: h[0], Value: []byte(h[1])})
	}
	for _, h := range l.Headers {
		if !strings.HasPrefix(h.Key, headerPrefix) {
			headers = append(headers, h)
		}
	}
	return kafka.Message{Topic: topic, Key: l.Key, Value: l.Value, Headers: headers, Time: l.Time}
}

// bury writes the letter, for as long as it takes: a record that is neither handled nor put aside would be lost. false: the generation is over.
func (p *partition) bury(work, over context.Context, l letter) bool {
	o := p.c.opts
	record := l.record(o.Group, o.DeadLetterTopic(l.Topic), time.Now())
	pauses := backoff.ExponentialBackOff{InitialInterval: o.Pause, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: o.MaxPause}
	pauses.Reset()
	for {
		err := p.c.letters.WriteMessages(work, record)
		switch {
		case err == nil:
			o.Metrics.Dead(o.Group, l.Topic)
			p.log("an event was put aside as a dead letter", l.Message, errors.New(l.reason))
			return true
		case over.Err() != nil:
			return false
		case tooLarge(err) && cut(&record):
			continue
		}
		o.Logger.Error("writing a dead letter failed, so the partition waits", "topic", record.Topic, "id", l.ID, "error", err.Error())
		if sleep(over, pauses.NextBackOff()); over.Err() != nil {
			return false
		}
	}
}

// tooLarge looks into kafka-go's list of errors, one for each message, which errors.Is does not.
func tooLarge(err error) bool {
	var list kafka.WriteErrors
	if errors.As(err, &list) {
		return slices.ContainsFunc(list, tooLarge)
	}
	var before kafka.MessageTooLargeError
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.As(err, &before)
}

// cut leaves out what makes the letter too large: the value, then the headers but the event's id, then the key. What was left
// out is in HeaderCut: "value", "value,headers", "value,headers,key". false: nothing is left that could go.
func cut(record *kafka.Message) bool {
	const value, headers, key = "value", "value,headers", "value,headers,key"
	was := ""
	if last := len(record.Headers) - 1; last >= 0 && record.Headers[last].Key == HeaderCut {
		was, record.Headers = string(record.Headers[last].Value), record.Headers[:last]
	}
	now := ""
	switch was {
	case "":
		now, record.Value = value, nil
	case value:
		now = headers
		record.Headers = slices.DeleteFunc(record.Headers, func(h kafka.Header) bool {
			return !strings.HasPrefix(h.Key, headerPrefix) && h.Key != "id" && h.Key != "ce_id"
		})
	case headers:
		now, record.Key = key, nil
	default:
		record.Headers = append(record.Headers, kafka.Header{Key: HeaderCut, Value: []byte(was)})
		return false
	}
	record.Headers = append(record.Headers, kafka.Header{Key: HeaderCut, Value: []byte(now)})
	return true
}

// writer is a *kafka.Writer. A letter flies alone, so what that one does to the order of batches doesn't matter; one that is written
// twice has its event's id.
type writer interface {
	WriteMessages(ctx context.Context, messages ...kafka.Message) error
}

func newWriter(brokers []string, transport kafka.RoundTripper) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(brokers...), Transport: transport, Balancer: &kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll, // a literal's default is none
		BatchSize:    1, BatchBytes: 1 << 30, MaxAttempts: 3,
	}
}
