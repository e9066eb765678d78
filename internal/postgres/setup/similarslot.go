package setup

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/nearest"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// DidYouMean is the remedy for a slot that does not exist beside one of a similar name.
func DidYouMean(command, near string) fault.Remedy {
	return fault.Do(fmt.Sprintf("Did you mean %s? Then set postgres.slot.", near),
		fmt.Sprintf("cdc-outbox %s --postgres-slot %s", command, near))
}

// slotNames lists the slots that a connector of this database could read.
func slotNames(ctx context.Context, q postgres.Querier) (names []string, err error) {
	err = q.QueryRow(ctx, `SELECT array(SELECT slot_name::text FROM pg_catalog.pg_replication_slots
		WHERE slot_type = 'logical' AND database = current_database() ORDER BY slot_name)`).Scan(&names)
	return names, err
}

// checkMistyped warns of a slot that does not exist beside one of a similar name. Where the checkpoint knows the name,
// it is right, and the slot was dropped: with the other slot the connector would confirm another relay's events.
func checkMistyped(cfg Config, st state) []preflight.Finding {
	near := nearest.Name(cfg.Slot, st.Others)
	if st.Slot.Exists || near == "" || st.Checkpoint.Confirmed != nil {
		return nil
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Subject: cfg.SlotSubject(),
		Found: fmt.Sprintf("It does not exist, and slot %q does.", near),
		Why:   "With a mistyped name the events that the other slot holds are not published.",
	}.With(DidYouMean("check", near))}
}
