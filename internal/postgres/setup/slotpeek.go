package setup

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// peekLimit bounds the decoding of the first change. A large first transaction, or a backlog without a row of the
// tables, is decoded until then: what such a slot holds stays unknown.
const peekLimit = 3 * time.Second

// peekAgain is how long a peek waits for a slot that another session holds for a moment.
const peekAgain = 100 * time.Millisecond

// peek decodes the first change of a slot that nothing reads, and confirms nothing. The catalog cannot show that a slot
// is beyond use because its publication was dropped and created again.
func (s servers) peek(ctx context.Context, cfg Config, st *state) {
	waits := st.Checkpoint.Word.Current() // a connector that stays for an operator holds the slot for moments
	if !st.Slot.Exists || st.Slot.ActivePID != 0 && !waits || cfg.UnusableSlot(st.Slot, st.Server.ServerFacts) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, peekLimit)
	defer cancel()
	for {
		var n int64
		err := s.Conn.QueryRow(ctx, `SELECT count(*) FROM pg_catalog.pg_logical_slot_peek_binary_changes($1::name,
			NULL, 1,
			'proto_version', '1', 'publication_names', $2::text)`, cfg.Slot, identifier.Quote(cfg.Publication)).Scan(&n)
		switch {
		case sqlstate.Of(err) == sqlstate.UndefinedObject:
			st.Undecodable = err
			return
		case sqlstate.Of(err) != sqlstate.ObjectInUse || !waits:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(peekAgain):
		}
	}
}

// undecodable is the finding for a slot whose next row was written while its publication did not exist.
func (cfg Config) undecodable(st state) preflight.Finding {
	what, _ := fault.Split(postgres.QueryFault("", st.Undecodable))
	return preflight.Finding{
		Level: preflight.Fail, Subject: cfg.SlotSubject(),
		Found: "Its next change cannot be decoded: " + what + ".",
		Why: "Rows are decoded with the publication as it was when they were written: what was written while it was " +
			"missing cannot be read from this slot, and creating the publication again does not change that.",
	}.With(postgres.ReplaceLost())
}
