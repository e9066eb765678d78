package consumer

import (
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Message is a record of the relay. Of its slices nil is null, and an empty one is empty.
type Message struct {
	Topic      string
	Partition  int
	Offset     int64
	Key, Value []byte
	Headers    []Header
	Time       time.Time // the record's timestamp

	ID       string // identifies the event; see Options.ID
	Type     string // header type, or ce_type
	Position string // header position: commit LSN and index, comparable as text within one slot
	Attempt  int    // 1 for the first of this process; attempts that wait and use up nothing are numbered as well
}

// Header is a header of a record. A record may have more than one with the same key.
type Header struct {
	Key   string
	Value []byte
}

// Header returns the value of the first header with the key, nil if there is none.
func (m Message) Header(key string) []byte {
	for i := range m.Headers {
		if m.Headers[i].Key == key {
			return m.Headers[i].Value
		}
	}
	return nil
}

// read completes a record's message. The error says why the record has no id.
func (c *Consumer) read(record Message) (Message, error) {
	m := record
	m.Type, m.Position = first(m.Headers, "type", "ce_type"), first(m.Headers, "position")
	var err error
	m.ID, err = c.identify(m)
	return m, err
}

// first returns the value of the first header that has the first of the names, then of the second, and so on.
func first(headers []Header, names ...string) string {
	for _, name := range names {
		for i := range headers {
			if headers[i].Key == name {
				return string(headers[i].Value)
			}
		}
	}
	return ""
}

// Event returns the record's id and source for the ledger.
func (m Message) Event() inbox.Event {
	at := strconv.Itoa(m.Partition) + "@" + strconv.FormatInt(m.Offset, 10)
	return inbox.Event{ID: m.ID, Source: m.Topic + "/" + at}
}
