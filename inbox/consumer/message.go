package consumer

import (
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Message is a record of the relay.
type Message struct {
	kafka.Message
	ID       string // identifies the event; see Options.ID
	Type     string // header type, or ce_type
	Position string // header position: commit LSN and index, comparable as text within one slot
	Attempt  int    // 1 for the first of this process; attempts that wait and use up nothing are numbered as well
}

// read returns the record as a message. The error says why it has no id.
func (c *Consumer) read(record kafka.Message) (Message, error) {
	m := Message{
		Message:  record,
		Type:     first(record.Headers, "type", "ce_type"),
		Position: first(record.Headers, "position"),
	}
	var err error
	m.ID, err = c.identify(m)
	return m, err
}

// first returns the value of the first header that has the first of the names, then of the second, and so on.
func first(headers []kafka.Header, names ...string) string {
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
	return inbox.Event{ID: m.ID, Source: fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)}
}
