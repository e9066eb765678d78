package setup

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// SlotState is a slot in working order.
type SlotState struct {
	Slot          postgres.Slot
	HasCheckpoint bool // the checkpoint table exists
}

// ReadSlot reads the slot for a caller that relies on what it has confirmed. Any doubt about server, tables,
// publication or slot is an error.
func ReadSlot(ctx context.Context, q postgres.Querier, cfg Config) (SlotState, error) {
	st, err := readState(ctx, q, cfg)
	if err != nil {
		return SlotState{}, postgres.QueryFault("catalog", err)
	}
	if err := preflight.FirstFailure(cfg.ForeignSlot(st.Slot, st.Server.ServerFacts)); err != nil {
		return SlotState{}, err
	}
	findings := append(checkServer(cfg, st), checkHotStandby(cfg, st)...)
	findings = append(append(findings, checkTables(cfg, st)...), checkPair(cfg, st)...)
	findings = append(append(findings, checkPublication(cfg, st)...), checkSlot(cfg, st)...)
	if err := preflight.FirstFailure(findings); err != nil {
		return SlotState{}, err
	}
	if !st.Slot.Exists || st.Server.InRecovery {
		return SlotState{}, &fault.Error{
			Kind: fault.Operator, Object: cfg.SlotSubject(),
			Err: errors.New("it does not exist on this server, or the server is a standby, so nothing says " +
				"what Kafka has"),
		}
	}
	return SlotState{Slot: st.Slot, HasCheckpoint: st.Checkpoint.Exists}, nil
}
