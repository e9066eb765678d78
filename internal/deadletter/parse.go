package deadletter

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// Record is a record of the dead-letter topic.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  int64 // milliseconds
	Key, Value []byte
	Headers    []router.Header
}

// Summary is the content of a letter's headers. It holds nothing of the payload.
type Summary struct {
	Kind            Kind      `json:"kind"`
	ID              string    `json:"id"` // empty: NULL
	Type            string    `json:"type,omitempty"`
	Position        string    `json:"position"`
	Slot            string    `json:"slot"`
	Group           string    `json:"group,omitempty"`     // of the consumer
	HandlerAttempts int       `json:"attempts,omitempty"`  // of the consumer
	Source          *Source   `json:"source,omitempty"`    // of a consumer's letter
	Holds           bool      `json:"holds,omitempty"`     // later events of its key wait for it
	WaitsFor        string    `json:"waits_for,omitempty"` // id of the event that it waits for
	Table           string    `json:"table,omitempty"`
	Reason          string    `json:"reason"`
	Detail          string    `json:"detail"`
	Topic           string    `json:"topic,omitempty"` // the intended one
	Key             string    `json:"key"`             // present, absent or cut
	Bytes           int       `json:"bytes,omitempty"`
	Limit           int       `json:"limit,omitempty"`
	Cut             []string  `json:"cut,omitempty"`
	CommitTime      time.Time `json:"commit_time,omitzero"`
	Written         time.Time `json:"written"`
}

// Letter is a letter as it was read.
type Letter struct {
	Summary
	HasID  bool
	IDHash string // of an id that was cut; empty if it was not

	Row *Row // of KindRow

	// Of KindRecord, and of the key for all kinds:
	Headers   []router.Header
	Timestamp int64
	Partition int32 // -1: the key's
	RecordKey []byte
	Value     []byte
}

// CutID reports whether the id was too long for its header.
func (l *Letter) CutID() bool { return slices.Contains(l.Cut, "id") }

// IsLetter reports whether the headers are a letter's, not a retry marker's or another application's.
func IsLetter(headers []router.Header) bool {
	_, ok := find(headers, headerLetter)
	return ok
}

// Summarize reads a letter's headers.
func Summarize(r *Record) (Summary, error) {
	if !IsLetter(r.Headers) && ofConsumer(r.Headers) {
		return summarizeConsumer(r), nil
	}
	s := Summary{Written: time.UnixMilli(r.Timestamp).UTC()}
	number := func(v []byte) int { n, _ := strconv.Atoi(string(v)); return n }
	texts := map[string]*string{
		headerID: &s.ID, headerType: &s.Type, headerPosition: &s.Position, headerSlot: &s.Slot, headerTable: &s.Table,
		headerReason: &s.Reason, headerDetail: &s.Detail, headerTopic: &s.Topic, headerKey: &s.Key,
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		if field := texts[h.Key]; field != nil {
			*field = string(h.Value)
		}
		switch h.Key {
		case headerLetter:
			s.Kind = Kind(h.Value)
		case headerBytes:
			s.Bytes = number(h.Value)
		case headerLimit:
			s.Limit = number(h.Value)
		case headerCut:
			s.Cut = strings.Split(string(h.Value), ",")
		case headerCommitTime:
			s.CommitTime, _ = time.Parse(time.RFC3339Nano, string(h.Value))
		}
	}
	_, position := find(r.Headers, headerPosition)
	switch {
	case !IsLetter(r.Headers) || !position:
		return s, errors.New("it lacks the headers of a dead letter")
	case s.Kind != KindRow && s.Kind != KindRecord && s.Kind != KindPointer:
		return s, fmt.Errorf("it is of the unknown kind %q; a newer version wrote it", s.Kind)
	}
	return s, nil
}

// Parse reads a letter. It keeps the record's slices.
func Parse(r *Record) (*Letter, error) {
	s, err := Summarize(r)
	if err != nil {
		return nil, err
	}
	if s.Kind == KindConsumer {
		return parseConsumer(r, s), nil
	}
	l := &Letter{Summary: s, RecordKey: r.Key, Value: r.Value, Partition: -1}
	id, _ := find(r.Headers, headerID)
	l.HasID = id != nil
	hash, _ := find(r.Headers, headerIDHash)
	l.IDHash = string(hash)
	switch s.Kind {
	case KindRow:
		text, _ := find(r.Headers, headerRow)
		if err := json.Unmarshal(text, &l.Row); err != nil || l.Row == nil {
			return nil, fmt.Errorf("its header %s is not a row", headerRow)
		}
	case KindRecord:
		text, _ := find(r.Headers, headerTimestamp)
		if l.Timestamp, err = strconv.ParseInt(string(text), 10, 64); err != nil {
			return nil, fmt.Errorf("its header %s is not a number", headerTimestamp)
		}
		if text, ok := find(r.Headers, headerPartition); ok {
			n, err := strconv.ParseInt(string(text), 10, 32)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("its header %s is not a partition", headerPartition)
			}
			l.Partition = int32(n)
		}
		for i := range r.Headers {
			if name, ok := strings.CutPrefix(r.Headers[i].Key, headerOriginal); ok {
				l.Headers = append(l.Headers, router.Header{Key: name, Value: r.Headers[i].Value})
			}
		}
	}
	return l, nil
}
