package setup

import (
	"context"
	"errors"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
)

const acceptCommand = "cdc-outbox slot accept"

// errUnchanged is for a change that is not needed.
var errUnchanged = errors.New("nothing is to be changed")

// AcceptSlot accepts the slot as it is as the slot to go on with: what is remembered of an earlier slot is replaced.
// With a slot from which the connector goes on anyway it changes nothing: what Kafka has of the position would be
// forgotten, and events published a second time.
func AcceptSlot(ctx context.Context, dsn string, cfg Config) (SlotReport, error) {
	return changeSlot(ctx, dsn, cfg, gap.SlotAccepted, func(_ servers, r SlotReport) error {
		if r.needsNone() {
			return errUnchanged
		}
		return nil
	})
}

// needsNone reports whether all that is known of the slot is of one history, so that nothing is to be accepted.
func (r *SlotReport) needsNone() bool {
	return r.Exists && r.problem == nil && r.Remembered != "" && r.KeptError == "" &&
		(r.Kept == nil || r.Kept.Timeline == r.Timeline) &&
		(r.LastWord == nil || !slices.Contains(r.LastWord.Remedy().Commands, acceptCommand))
}

// Unchanged reports whether nothing was changed, because nothing had to be.
func (r *SlotReport) Unchanged() bool { return r.unchanged }
