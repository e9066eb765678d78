package replay

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
)

// decided are the events that are kept out of their topics by decision, by id.
type decided struct{ letters, skipped map[string]bool }

// readDecided reads which they are. A letter that was retried says that its topic has the record, and a consumer's
// letter that it had it.
func (r *repair) readDecided(ctx context.Context) (decided, error) {
	out := decided{letters: map[string]bool{}, skipped: map[string]bool{}}
	if r.o.Skipped != nil {
		ids, err := r.o.Skipped(ctx)
		if err != nil {
			return out, err
		}
		for _, id := range ids {
			out.skipped[id] = true
		}
	}
	if r.o.Letters == "" {
		return out, nil
	}
	box, err := letterbox.Open(ctx, r.o.Reader, r.o.Letters, r.o.Progress)
	if errors.Is(err, sink.ErrNoTopic) {
		return out, nil // nothing was dead-lettered
	}
	if err != nil {
		return out, err
	}
	defer box.Close()
	for _, e := range box.Ledger.Entries() {
		if e.Group == "" && e.State != deadletter.Retried {
			out.letters[e.ID] = true
		}
	}
	return out, nil
}

// eventID is the id in a record's header.
func (r *repair) eventID(header []byte) string {
	if r.o.HeaderID != nil {
		header = r.o.HeaderID(header)
	}
	return string(header)
}
