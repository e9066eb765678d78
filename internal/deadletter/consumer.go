package deadletter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// KindConsumer is the letter of a consumer: a record that its handler could not handle. Package inbox/consumer of the
// module inbox writes it; the two agree on the names below.
const KindConsumer Kind = "consumer"

const (
	consumerPrefix    = "dlt-"
	consumerReason    = consumerPrefix + "reason"
	consumerClass     = consumerPrefix + "class"
	consumerEventID   = consumerPrefix + "event-id"
	consumerAttempts  = consumerPrefix + "attempts"
	consumerGroup     = consumerPrefix + "group"
	consumerFailedAt  = consumerPrefix + "failed-at"
	consumerTopic     = consumerPrefix + "origin-topic"
	consumerPartition = consumerPrefix + "origin-partition"
	consumerOffset    = consumerPrefix + "origin-offset"
	consumerTimestamp = consumerPrefix + "origin-timestamp"
	consumerCut       = consumerPrefix + "cut"
	consumerHold      = consumerPrefix + "hold"
	consumerWaitsFor  = consumerPrefix + "waits-for"

	waiting = "waiting" // class of an event that was not tried, because a letter of its key was open

	unclassified = "failed" // a letter that is older than the classes
)

// Classes are the reasons of consumers' letters.
func Classes() []string {
	return []string{"no_id", "permanent", "exhausted", "unfinished", waiting, unclassified}
}

// Source is the position and timestamp of the record in a consumer's letter.
type Source struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"` // milliseconds
}

// ofConsumer reports whether the headers belong to a consumer's letter.
func ofConsumer(headers []router.Header) bool {
	_, topic := find(headers, consumerTopic)
	_, group := find(headers, consumerGroup)
	return topic && group
}

// summarizeConsumer reads the headers of a consumer's letter.
func summarizeConsumer(r *Record) Summary {
	s := Summary{
		Kind: KindConsumer, Reason: unclassified, Key: keyPresent, Written: time.UnixMilli(r.Timestamp).UTC(),
		Source: &Source{},
	}
	if r.Key == nil {
		s.Key = keyAbsent
	}
	text := func(name string) string { v, _ := find(r.Headers, name); return string(v) }
	s.ID = cmp.Or(text(headerID), text("ce_id"), text(consumerEventID))
	s.Type = cmp.Or(text(headerType), text("ce_type"))
	s.Group, s.Detail, s.Topic = text(consumerGroup), text(consumerReason), text(consumerTopic)
	s.Reason = cmp.Or(text(consumerClass), unclassified)
	_, s.Holds = find(r.Headers, consumerHold)
	s.WaitsFor = text(consumerWaitsFor)
	s.HandlerAttempts, _ = strconv.Atoi(text(consumerAttempts))
	if at, err := time.Parse(time.RFC3339Nano, text(consumerFailedAt)); err == nil {
		s.Written = at.UTC()
	}
	partition, _ := strconv.ParseInt(text(consumerPartition), 10, 32)
	s.Source.Topic, s.Source.Partition = s.Topic, int32(partition)
	s.Source.Offset, _ = strconv.ParseInt(text(consumerOffset), 10, 64)
	s.Source.Timestamp, _ = strconv.ParseInt(text(consumerTimestamp), 10, 64)
	s.Position = s.Topic + "/" + text(consumerPartition) + "@" + text(consumerOffset)
	if cut := text(consumerCut); cut != "" {
		s.Cut = strings.Split(cut, ",")
		if slices.Contains(s.Cut, "key") {
			s.Key = keyCut
		}
	}
	return s
}

// parseConsumer reads a consumer's letter: the record as it was.
func parseConsumer(r *Record, s Summary) *Letter {
	l := &Letter{
		Summary: s, HasID: s.ID != "", RecordKey: r.Key, Value: r.Value, Partition: s.Source.Partition,
		Timestamp: s.Source.Timestamp,
	}
	for i := range r.Headers {
		if h := &r.Headers[i]; !strings.HasPrefix(h.Key, consumerPrefix) && h.Key != HeaderRetried {
			l.Headers = append(l.Headers, *h)
		}
	}
	return l
}

// owner is whose letter it is: a slot's or a consumer group's.
func (s *Summary) owner() string { return cmp.Or(s.Group, s.Slot) }

// Compare orders letters as their events are ordered: by position, and letters of consumers by their records.
func (e *Entry) Compare(o *Entry) int {
	if e.Source != nil && o.Source != nil {
		return cmp.Or(cmp.Compare(e.Source.Topic, o.Source.Topic),
			cmp.Compare(e.Source.Partition, o.Source.Partition), cmp.Compare(e.Source.Offset, o.Source.Offset),
			cmp.Compare(e.Group, o.Group))
	}
	return cmp.Or(cmp.Compare(e.owner(), o.owner()), cmp.Compare(e.Position, o.Position), cmp.Compare(e.ID, o.ID))
}

// Filter chooses letters; its zero value chooses all.
type Filter struct {
	Reasons []string
	Group   string        // of the consumer
	Source  string        // topic that the record was in, or was for
	Older   time.Duration // than this
}

// Chooses reports whether the letter is one of those.
func (f *Filter) Chooses(e *Entry, now time.Time) bool {
	return (len(f.Reasons) == 0 || slices.Contains(f.Reasons, e.Reason)) && (f.Group == "" || f.Group == e.Group) &&
		(f.Source == "" || f.Source == e.Topic) && (f.Older == 0 || now.Sub(e.Written) >= f.Older)
}

// IsEmpty reports whether the filter chooses all.
func (f *Filter) IsEmpty() bool {
	return len(f.Reasons) == 0 && f.Group == "" && f.Source == "" && f.Older == 0
}
