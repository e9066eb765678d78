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
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// near returns the name of the database's slot that was probably meant, empty if none is similar. If the checkpoint
// knows the configured name, that name is right, and the slot was dropped.
func near(ctx context.Context, c *config.Loaded) string {
	if at, err := wiring.LastWord(c).Confirmed(ctx); err == nil && at != nil {
		return ""
	}
	dsn, err := routing.DSN(c)()
	if err != nil {
		return ""
	}
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return ""
	}
	all := wiring.Monitor(c)
	all.Only = nil
	slots, err := slotmonitor.Look(ctx, all)
	if err != nil {
		return ""
	}
	var names []string
	for i := range slots {
		if slots[i].Database == cmp.Or(pc.Database, pc.User) { // as libpq has it
			names = append(names, slots[i].Name)
		}
	}
	return nearest.Name(c.Postgres.Slot, names)
}

// noSlot is the status without a slot, near the name that was probably meant.
func noSlot(con connector.Status, near string) (Status, error) {
	st := withSlot(con, nil, nil)
	err := &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("slot %q", con.Slot), Err: errors.New("it does not exist"),
		Next:     "If it existed before, see what its loss means. Then create it.",
		Commands: []string{"cdc-outbox check", "cdc-outbox setup"},
	}
	if near == "" {
		return st, err
	}
	meant := setup.DidYouMean("status", near)
	err.Next, err.Commands = meant.Next, meant.Commands
	for i := range st.Waits {
		if st.Waits[i].Kind == waitSlotMissing {
			st.Waits[i].Next, st.Waits[i].Commands = meant.Next, meant.Commands
		}
	}
	if st.Cause.Code == waitSlotMissing {
		st.Cause.Next, st.Cause.Commands = meant.Next, meant.Commands
	}
	return st, err
}
