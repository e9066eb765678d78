package badrow

import (
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Held lists the rows whose records Kafka refuses, as far as the producer is in trouble with them now. The position is
// empty if it is not known which row it is: nothing can be decided about it then.
func (h *Handler) Held(troubles []sink.Trouble) (rows []*relay.HaltedRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range troubles {
		t := &troubles[i]
		if r, ok := h.held[t.Object]; ok && refusal(t) {
			rows = append(rows, &relay.HaltedRow{
				Position: r.position, LSN: r.lsn, EventID: r.id, Reason: string(t.Kind),
				Message: t.Object + ": " + t.Sentence, Next: t.Remedy, Since: t.Since,
			})
		}
	}
	return rows
}

// Decide hands over an operator's decision about a row whose record Kafka refuses. It is applied when the record is
// refused the next time, within seconds.
func (h *Handler) Decide(d relay.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for object, r := range h.held {
		if r.position != "" && d.Of(r.position, r.id) {
			r.decided = &d
			h.held[object] = r
		}
	}
}

// decision takes the decision about the record that is refused again.
func (h *Handler) decision(object string, row Row) (relay.Decision, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.held[object]
	if r.decided == nil || !r.decided.Of(string(row.Position), row.EventID) {
		return relay.Decision{}, false
	}
	delete(h.held, object)
	return *r.decided, true
}

// offer adds to a trouble the command that passes its row.
func (r *heldRecord) offer(t *sink.Trouble) {
	if r.position == "" {
		return
	}
	pass := relay.PassRemedy(r.id, r.position, string(t.Kind))
	t.Remedy = strings.TrimSpace(t.Remedy + " " + pass.Next)
	t.Commands = slices.Concat(t.Commands, pass.Commands)
}

// rowOf is the position of a row, of the log or of a table, empty if only its transaction is known.
func rowOf(position []byte) string {
	first, rest, found := strings.Cut(string(position), "-")
	if !found || len(first) != 16 && first+"-" != SequencePrefix || rest == "" {
		return ""
	}
	return relay.Storable(string(position))
}

// SequencePrefix begins the position of a row that was polled.
const SequencePrefix = "seq-"

func refusal(t *sink.Trouble) bool { return t.Kind == sink.RecordTooLarge || t.Kind == sink.Rejected }
