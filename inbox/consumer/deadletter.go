package consumer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/internal/failure"
)

// Headers of a dead letter. They precede the record's own headers. Key, value and the other headers are unchanged; the
// timestamp is when the letter was written.
const (
	HeaderReason    = "dlt-reason"           // the handler's last error
	HeaderClass     = "dlt-class"            // kind of the failure, see Class
	HeaderEventID   = "dlt-event-id"         // the event's id, if the record has no header id or ce_id
	HeaderAttempts  = "dlt-attempts"         // number of attempts
	HeaderGroup     = "dlt-group"            // the group that could not handle it
	HeaderFailedAt  = "dlt-failed-at"        // RFC 3339
	HeaderTopic     = "dlt-origin-topic"     // where the record was
	HeaderPartition = "dlt-origin-partition" //
	HeaderOffset    = "dlt-origin-offset"    //
	HeaderTimestamp = "dlt-origin-timestamp" // of the record, milliseconds
	HeaderCut       = "dlt-cut"              // parts left out of a letter that was too large, see cut
	HeaderHold      = "dlt-hold"             // with HoldKeys: SHA-256 of the key, a blank, the event's id
	HeaderWaitsFor  = "dlt-waits-for"        // of class Waiting: id of the event whose letter was open

	headerPrefix = "dlt-"
	maxReason    = 1 << 10
)

// Class is the kind of failure that made a record a dead letter.
type Class string

const (
	NoID       Class = "no_id"      // the record has no id: nothing was tried
	Refused    Class = "permanent"  // the handler returned an error from Permanent
	Unfinished Class = "unfinished" // inbox.ErrUnfinished: whether the event had its effect is unknown
	Exhausted  Class = "exhausted"  // the attempts or the budget were used up
	Waiting    Class = "waiting"    // nothing was tried: a letter of the key was open, see Options.HoldKeys
)

func classOf(err error) Class {
	switch {
	case errors.Is(err, inbox.ErrUnfinished):
		return Unfinished
	case failure.IsPermanent(err):
		return Refused
	}
	return Exhausted
}

// letter is a record for the dead-letter topic.
type letter struct {
	Message
	reason   string
	class    Class
	attempts int
	hold     string // for HeaderHold and HeaderWaitsFor; empty: without the header
	waitsFor string
}

// record returns the record for the dead-letter topic. It replaces the headers of an earlier dead letter. Its timestamp
// is the letter's: Kafka deletes by timestamp, and the letter of an old event must not expire as it is written.
func (l letter) record(group, topic string, now time.Time) Message {
	reason := strings.ToValidUTF8(l.reason, "\uFFFD")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	var headers []Header
	for _, h := range [][2]string{
		{HeaderReason, reason},
		{HeaderClass, string(l.class)},
		{HeaderAttempts, strconv.Itoa(l.attempts)},
		{HeaderGroup, group},
		{HeaderFailedAt, now.UTC().Format(time.RFC3339Nano)},
		{HeaderTopic, l.Topic},
		{HeaderPartition, strconv.Itoa(l.Partition)},
		{HeaderOffset, strconv.FormatInt(l.Offset, 10)},
		{HeaderTimestamp, strconv.FormatInt(l.Time.UnixMilli(), 10)},
		{HeaderHold, l.hold},
		{HeaderWaitsFor, l.waitsFor},
	} {
		if h[1] != "" || h[0] == HeaderReason {
			headers = append(headers, Header{Key: h[0], Value: []byte(h[1])})
		}
	}
	if l.ID != "" && first(l.Headers, "id", "ce_id") == "" {
		headers = append(headers, Header{Key: HeaderEventID, Value: []byte(l.ID)})
	}
	for _, h := range l.Headers {
		if !strings.HasPrefix(h.Key, headerPrefix) {
			headers = append(headers, h)
		}
	}
	return Message{Topic: topic, Partition: -1, Key: l.Key, Value: l.Value, Headers: headers, Time: now}
}

// bury writes the letter and repeats that for as long as it takes, because a record that is neither handled nor
// dead-lettered would be lost. It returns false if the assignment is over.
func (p *partition) bury(work, over context.Context, l letter) bool {
	o := p.c.opts
	if p.holds != nil && l.Key != nil && l.class != NoID {
		l.hold = holdOf(l.Message)
	}
	record := l.record(o.Group, o.DeadLetterTopic(l.Topic), time.Now())
	pauses := o.backOff()
	for {
		err := p.c.cluster.write(work, record)
		switch {
		case err == nil:
			o.Metrics.Dead(o.Group, l.Topic)
			p.logger(l.Message).Warn("an event was written to the dead-letter topic", "error", l.reason)
			return true
		case over.Err() != nil:
			return false
		case tooLarge(err) && cut(&record):
			continue
		}
		o.Logger.Error("writing a dead letter failed, so the partition waits",
			"topic", record.Topic, "id", l.ID, "error", err.Error())
		if sleep(over, pauses.NextBackOff()); over.Err() != nil {
			return false
		}
	}
}

// tooLarge reports whether the broker or the client refused the message for its size.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// cut leaves out a part of a letter that is too large: first the value, then the headers except the event's id, then
// the key. The header HeaderCut names these parts: "value", "value,headers", "value,headers,key". cut returns false if
// nothing remains to be left out.
func cut(record *Message) bool {
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
		record.Headers = slices.DeleteFunc(record.Headers, func(h Header) bool {
			return !strings.HasPrefix(h.Key, headerPrefix) && h.Key != "id" && h.Key != "ce_id"
		})
	case headers:
		now, record.Key = key, nil
	default:
		record.Headers = append(record.Headers, Header{Key: HeaderCut, Value: []byte(was)})
		return false
	}
	record.Headers = append(record.Headers, Header{Key: HeaderCut, Value: []byte(now)})
	return true
}
