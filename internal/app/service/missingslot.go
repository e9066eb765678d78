package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/nearest"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// missing is what is known of a slot that does not exist.
type missing struct {
	known   bool         // the checkpoint knows it, so it was dropped
	near    string       // the name of the database's slot that was probably meant, empty if none is similar
	replace fault.Remedy // where it was dropped
}

// replaceLost is the remedy for a slot that is lost and that no connector speaks of.
func replaceLost(c *config.Loaded) fault.Remedy {
	r := postgres.ReplaceLost()
	if c.OnGap == config.OnGapHeal {
		r.Next = setup.HealFirst + r.Next
	}
	return r
}

// lostSlot is the status with a slot that is lost. A connector that waits for an operator has looked closer.
func lostSlot(c *config.Loaded, con connector.Status, slot *slotmonitor.Slot, seen *onset) (Status, error) {
	st, next := withSlot(con, slot, nil, seen), replaceLost(c)
	if con.State.Name == relay.NeedsOperator && !st.Cause.Remedy().IsZero() {
		next = st.Cause.Remedy()
	}
	for i := range st.Waits {
		if w := &st.Waits[i]; w.Kind == waitSlotLost {
			w.Next, w.Commands = next.Next, next.Commands
		}
	}
	if st.Cause.Code == waitSlotLost {
		st.Cause = st.Cause.With(next)
		st.ReplicationSlot.Cause = st.Cause
	}
	return st, (&fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("slot %q", con.Slot), Err: errors.New("it is lost"),
	}).With(next)
}

// whyMissing looks around for a slot that does not exist. If the checkpoint knows the configured name, that name is
// right.
func whyMissing(ctx context.Context, c *config.Loaded) (m missing) {
	if at, err := wiring.LastWord(c).Confirmed(ctx); err == nil && at != nil {
		return missing{known: true, replace: replaceLost(c)}
	}
	dsn, err := routing.DSN(c)()
	if err != nil {
		return m
	}
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return m
	}
	all := wiring.Monitor(c)
	all.Only = nil
	slots, err := slotmonitor.Look(ctx, all)
	if err != nil {
		return m
	}
	var names []string
	for i := range slots {
		if slots[i].Database == cmp.Or(pc.Database, pc.User) { // as libpq has it
			names = append(names, slots[i].Name)
		}
	}
	return missing{near: nearest.Name(c.Postgres.Slot, names)}
}

func (m missing) remedy() fault.Remedy {
	switch {
	case m.known:
		return m.replace
	case m.near != "":
		return setup.DidYouMean("status", m.near)
	}
	return createMissing()
}

// noSlot is the status without a slot.
func noSlot(con connector.Status, m missing, seen *onset) (Status, error) {
	st := withSlot(con, nil, nil, seen)
	next := m.remedy()
	if con.State.Name == relay.NeedsOperator && !st.Cause.Remedy().IsZero() {
		next = st.Cause.Remedy() // a connector that stays has looked closer
	}
	for i := range st.Waits {
		if w := &st.Waits[i]; w.Kind == waitSlotMissing {
			w.Next, w.Commands = next.Next, next.Commands
		}
	}
	if st.Cause.Code == waitSlotMissing {
		st.Cause = st.Cause.With(next)
	}
	err := &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("slot %q", con.Slot), Err: errors.New("it does not exist"),
	}
	return st, err.With(next)
}
