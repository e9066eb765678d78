package consumer

import (
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Message is a record of the relay.
type Message struct {
	kafka.Message
	ID       string // header id, or ce_id of a CloudEvent: identifies the event
	Type     string // header type, or ce_type
	Position string // header position: commit LSN and index, comparable as text within one slot
	Attempt  int    // 1 for the first
}

func read(m kafka.Message) Message {
	return Message{
		Message:  m,
		ID:       first(m.Headers, "id", "ce_id"),
		Type:     first(m.Headers, "type", "ce_type"),
		Position: first(m.Headers, "position"),
	}
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

// Event returns what the ledger needs to know about the record.
func (m Message) Event() inbox.Event {
	return inbox.Event{ID: m.ID, Source: fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)}
}

// isMarker reports whether a record is the end of a Kafka transaction, which kafka-go returns like any other record:
// the key is version 0 and type 0 or 1 (abort, commit), the value version and coordinator epoch (KIP-98, "Control
// Messages"). Unlike a marker an event has headers.
func isMarker(m kafka.Message) bool {
	k := m.Key
	return len(m.Headers) == 0 && len(k) == 4 && len(m.Value) == 6 && k[0] == 0 && k[1] == 0 && k[2] == 0 && k[3] <= 1
}
