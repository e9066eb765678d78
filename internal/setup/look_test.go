package setup

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// TestALockIsAnAnswer: the commands that look do not wait for the end of another session's lock, they name it.
func TestALockIsAnAnswer(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	require.NoError(t, db.ensure(t, true))
	holder, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE cdc_outbox_slots IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pid := holder.PgConn().PID()
	end := fmt.Sprintf("SELECT pg_terminate_backend(%d);", pid)
	requireOperator(t, preflight.FirstFailure(Preflight(ctx, db.DSN, db.cfg)), fmt.Sprintf("locked by pid %d", pid),
		end)
	_, err = ReportSlot(ctx, db.DSN, db.cfg)
	requireOperator(t, err, fmt.Sprintf("locked by pid %d", pid), end)
}

// TestRecreateMakesThePublication that was dropped: one command replaces both, and in that order.
func TestRecreateMakesThePublication(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	db.Exec(t, "DROP PUBLICATION "+identifier.Quote(db.Publication))
	_, err := RecreateSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	require.NoError(t, preflight.FirstFailure(Preflight(t.Context(), db.DSN, db.cfg)))
}

// TestAMistypedSlotIsGuessedByCheck: a slot of a similar name is likelier meant than a new one.
func TestAMistypedSlotIsGuessedByCheck(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	meant := db.cfg.Slot
	db.cfg.Slot += "x"
	for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
		if slices.Contains(f.Commands, "cdc-outbox check --postgres-slot "+meant) {
			require.Equal(t, preflight.Warn, f.Level)
			return
		}
	}
	require.Fail(t, "no finding names the slot that exists")
}
