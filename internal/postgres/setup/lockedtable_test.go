package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// TestALockIsAnAnswer: the commands that look do not wait for the end of another session's lock, they name it.
//
// Bug (monitor): While the checkpoint's table was locked, `check` and `slot` waited for the end of the lock. Cost: no
// answer when it mattered.
func TestALockIsAnAnswer(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	require.NoError(t, db.ensure(t, true))
	holder, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE cdc_outbox_slots IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pid := holder.PgConn().PID()
	end := fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", pid)
	requireOperator(t, preflight.FirstFailure(Preflight(ctx, db.DSN, db.cfg)), fmt.Sprintf("locked by pid %d", pid),
		end)
	_, err = ReportSlot(ctx, db.DSN, db.cfg)
	requireOperator(t, err, fmt.Sprintf("locked by pid %d", pid), end)
}

// TestRecreateMakesThePublication that was dropped: one command replaces both, and in that order.
//
// Bug (monitor): `slot recreate` refused to work where the publication no longer existed. Cost: one more step at night.
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

// TestADroppedSlotIsNotMistyped where the checkpoint knows its name: with the other slot the connector would confirm
// the events of another relay.
func TestADroppedSlotIsNotMistyped(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	require.NoError(t, db.ensure(t, true))
	db.cfg.Slot += "x"
	db.Exec(t, fmt.Sprintf(`INSERT INTO cdc_outbox_slots (slot, system_id, timeline, position)
		VALUES ('%s', '', 0, '0/0')`, db.cfg.Slot))
	for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
		require.NotContains(t, f.Remedy, "Did you mean")
	}
	r, err := ReportSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	_, remedy := fault.Split(r.Problem())
	require.Equal(t, fault.Do("See what its loss means.", "cdc-outbox check"), remedy)
}

// TestSinceWhenASlotIsUnread: before PostgreSQL 17 the server does not say it, and the checkpoint knows when the slot
// was last confirmed.
func TestSinceWhenASlotIsUnread(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	require.NoError(t, db.ensure(t, true))
	says := func() (slot string, check bool) {
		r, err := ReportSlot(t.Context(), db.DSN, db.cfg)
		require.NoError(t, err)
		slot = r.UnreadSince()
		at := strings.TrimPrefix(slot, "not known; ")
		for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
			check = check || strings.Contains(f.Found, ", not read") && (at == "not known" ||
				strings.HasSuffix(f.Found, at+"."))
		}
		return slot, check
	}
	slot, check := says()
	require.True(t, check)
	if db.Major() >= 17 {
		_, err := time.Parse(time.RFC3339, slot)
		require.NoError(t, err)
		return
	}
	require.Equal(t, "not known", slot)
	db.Exec(t, fmt.Sprintf(`INSERT INTO cdc_outbox_slots (slot, system_id, timeline, position, updated_at)
		VALUES ('%s', '', 0, '0/0', '2026-01-02T03:04:05Z')`, db.cfg.Slot))
	slot, check = says()
	require.Equal(t, "not known; last confirmed at 2026-01-02T03:04:05Z", slot)
	require.True(t, check)
}

// TestSinceWhenAPromotedCopyIsUnread: on the new primary the slot stays "synced", and a reader is due.
func TestSinceWhenAPromotedCopyIsUnread(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	slot := postgres.Slot{Exists: true, Synced: true, InactiveSince: at}
	for standby, want := range map[bool]string{true: "", false: "2026-01-02T03:04:05Z"} {
		r := SlotReport{Exists: true, Synced: true, InactiveSince: &at, InRecovery: standby}
		require.Equal(t, want, r.UnreadSince())
		st := state{Slot: slot}
		st.Server.InRecovery = standby
		require.Equal(t, want, strings.TrimPrefix(unread(st), ", not read since "))
	}
}

// TestCheckNamesWhoKeepsWritersOut: the stream goes on, and applications wait.
//
// Bug (monitor): Writers that waited for another session's lock on the outbox table were named by no command. Cost: an
// outage of the application with every light green here. Also: `TestEveryViewNamesTheCause` in `test/e2e`, e2e.
func TestCheckNamesWhoKeepsWritersOut(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	holder, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	command := fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", holder.PgConn().PID())
	named := func() bool {
		return slices.ContainsFunc(Preflight(t.Context(), db.DSN, db.cfg), func(f preflight.Finding) bool {
			return strings.Contains(f.Found, "1 session waits for it") && slices.Contains(f.Commands, command)
		})
	}
	require.False(t, named(), "a lock that delays nothing is not reported")
	writer, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = writer.Exec(context.Background(), "BEGIN; LOCK TABLE outbox IN ROW EXCLUSIVE MODE")
	}()
	require.Eventually(t, named, time.Minute, 50*time.Millisecond)
	require.NoError(t, holder.Close(t.Context()))
	<-done
	require.NoError(t, writer.Close(t.Context()))
}

// A name without quotes is folded. Where the table that was meant exists, no second one is made, and the message shows
// how to write the name.
func TestAFoldedNameIsExplained(t *testing.T) {
	db := newAdminDB(t, `CREATE TABLE "OutboxMessage" (id uuid PRIMARY KEY, aggregate_type text, aggregate_id text,
		payload jsonb)`)
	db.cfg.Tables = []identifier.Table{{Schema: "public", Name: "outboxmessage"}}
	for _, ddl := range []string{"", "CREATE TABLE outboxmessage (id int);"} {
		db.cfg.TableDDL = ddl
		_, err := Run(t.Context(), db.DSN, db.cfg)
		require.ErrorContains(t, err, `but there is public."OutboxMessage"`)
		require.ErrorContains(t, err, `tables: ['public."OutboxMessage"']`)
	}
	var tables int
	require.NoError(t, db.conn.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_class WHERE lower(relname) = 'outboxmessage'").Scan(&tables))
	require.Equal(t, 1, tables)
}
