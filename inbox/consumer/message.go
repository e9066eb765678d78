package consumer

import (
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Message is a record of the relay.
type Message struct {
	kafka.Message
	ID       string // header id, or ce_id of a CloudEvent: what makes it the same event wherever it is
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

// first returns the value of the first header with the first of the names that is there.
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

// Event is what the ledger needs to know.
func (m Message) Event() inbox.Event {
	return inbox.Event{ID: m.ID, Source: fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)}
}

// isMarker recognises the end of a Kafka transaction, which kafka-go returns like a record: key = version 0, type 0 or 1 (abort, commit), value =
// version, coordinator epoch (KIP-98, "Control Messages"). Events have headers.
func isMarker(m kafka.Message) bool {
	k := m.Key
	return len(m.Headers) == 0 && len(k) == 4 && len(m.Value) == 6 && k[0] == 0 && k[1] == 0 && k[2] == 0 && k[3] <= 1
}
