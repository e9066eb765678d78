package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// From 16 on a slot may be on a hot standby (Postgres docs 47.2.2). It belongs to that server alone; all the rest, the
// publication above all, is a matter of the catalogs and therefore made on the primary.

// servers are the two that a setup deals with, most of the time the same one.
type servers struct {
	*pgx.Conn // where the slot is
	// where everything else is made; nil: the slot is on a standby, and nothing leads to its primary
	primary *pgx.Conn
}

// withServers connects to the slot's server, and where that is a standby on purpose, to its primary.
func withServers(ctx context.Context, dsn string, cfg Config, use func(servers) error) error {
	return withAdminConn(ctx, dsn, cfg, func(conn *pgx.Conn) error { return withPrimary(ctx, conn, cfg, use) })
}

// withPrimary adds the connection to the primary, where that is another server.
func withPrimary(ctx context.Context, conn *pgx.Conn, cfg Config, use func(servers) error) error {
	if !cfg.HotStandby {
		return use(servers{conn, conn})
	}
	standby, id, err := recovering(ctx, conn)
	switch {
	case err != nil:
		return postgres.QueryFault("server", err)
	case !standby:
		return use(servers{conn, conn})
	case cfg.PrimaryDSN == "":
		return use(servers{Conn: conn})
	}
	primary, err := connectPrimary(ctx, cfg, id)
	if err != nil {
		return err
	}
	defer postgres.CloseConn(primary)
	return use(servers{conn, primary})
}

func recovering(ctx context.Context, conn *pgx.Conn) (standby bool, systemID string, err error) {
	err = conn.QueryRow(ctx,
		`SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_catalog.pg_control_system())`).
		Scan(&standby, &systemID)
	return standby, systemID, err
}

// connectPrimary makes sure that the server there is the standby's primary, or an ancestor of it.
func connectPrimary(ctx context.Context, cfg Config, systemID string) (*pgx.Conn, error) {
	primary, err := postgres.Open(ctx, cfg.PrimaryDSN, postgres.ConnectOptions{Timeout: cfg.ConnectTimeout})
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			f.Object = "postgres.primary_dsn, " + f.Object
		}
		return nil, err
	}
	standby, id, err := recovering(ctx, primary)
	f := &fault.Error{Kind: fault.Operator, Object: "postgres.primary_dsn"}
	switch {
	case err != nil:
		f = nil
		err = postgres.QueryFault("postgres.primary_dsn", err)
	case id != systemID:
		f.Err = fmt.Errorf("the server there is another cluster than the standby's: system identifier %s, the "+
			"standby's %s", id, systemID)
		f.Next = "Let it lead to the primary of the standby in postgres.dsn."
	case standby:
		f.Kind, f.Err = fault.Retry, errors.New("the server there is a standby, too") // it may be failing over
		f.Next = "Name every host that may be the primary, with target_session_attrs=read-write."
	default:
		return primary, nil
	}
	postgres.CloseConn(primary)
	if f != nil {
		err = f
	}
	return nil, err
}

// readState reads the slot where it is and the rest where it is made.
func (s servers) readState(ctx context.Context, cfg Config) (state, error) {
	if s.primary == s.Conn {
		return readState(ctx, s.Conn, cfg)
	}
	near, err := readState(ctx, s.Conn, cfg)
	if err != nil || s.primary == nil {
		near.Publication.Owned = false // nothing can be done about it from here
		return near, err
	}
	st, err := readState(ctx, s.primary, cfg)
	if err != nil {
		return st, err
	}
	primary := st.Server
	st.Primary, st.Server, st.Slot = &primary, near.Server, near.Slot
	st.Server.MayCreate = primary.MayCreate
	return st, nil
}

// maker is the connection on which a step is done.
func (s servers) maker(step Step) *pgx.Conn {
	if step.action == stepSlot || step.action == stepSnapshotSlot {
		return s.Conn
	}
	return s.primary
}

// awaitReplay waits until the standby has what was made on the primary. A slot that began before its publication could
// never be decoded.
func (s servers) awaitReplay(ctx context.Context, cfg Config) error {
	if s.primary == s.Conn || s.primary == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.SlotWait)
	defer cancel()
	var made string
	if err := s.primary.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&made); err != nil {
		return postgres.QueryFault("postgres.primary_dsn", err)
	}
	for {
		var there bool
		if err := s.QueryRow(ctx, `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, made).Scan(&there); err != nil &&
			ctx.Err() == nil {
			return postgres.QueryFault("server", err)
		}
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return &fault.Error{
				Kind: fault.Retry, Object: cfg.SlotSubject(), At: made,
				Err:  errors.New("the standby has not replayed yet what was made on the primary"),
				Next: "See on the standby how far it is.",
				Commands: []string{"SELECT pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), " +
					"pg_is_wal_replay_paused();"},
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// logSnapshots lets the primary tell its standbys which transactions run, again and again until ctx ends: a slot on a
// standby begins at such a record, and an idle primary writes none unasked (Postgres docs 9.28.1,
// pg_log_standby_snapshot). Where transactions were open it takes another one after they have ended.
func (s servers) logSnapshots(ctx context.Context, cfg Config) {
	if s.primary == nil {
		cfg.Logger.Info("creating a slot on a standby waits for the primary to log its running transactions; on an "+
			"idle primary an operator has to ask for it there",
			zap.String(logkey.Slot, cfg.Slot), zap.String(logkey.SQL, postgres.LogSnapshotSQL))
		return
	}
	for {
		if _, err := s.primary.Exec(ctx, postgres.LogSnapshotSQL); err != nil {
			if ctx.Err() == nil {
				cfg.Logger.Warn("the primary cannot be asked to log its running transactions, which creating a slot "+
					"on a standby waits for; run it there as a superuser, or let this role do it",
					zap.String(logkey.SQL, postgres.LogSnapshotSQL),
					zap.String(logkey.Grant, "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO "+
						identifier.Quote(s.primary.Config().User)+";"), zap.Error(err))
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// checkHotStandby judges the server's role: a hot standby has to be meant, and fit.
func checkHotStandby(cfg Config, st state) []preflight.Finding {
	if wrong := cfg.WrongRole(st.Server.ServerFacts, st.Slot.Exists); wrong != nil {
		return wrong
	}
	if !st.Server.InRecovery {
		return nil
	}
	return checkFeedback(st)
}

// checkFeedback: the primary must keep the catalog rows that decoding on the standby needs, or recovery invalidates the
// slot as soon as they are vacuumed there.
func checkFeedback(st state) []preflight.Finding {
	s := st.Server
	out := []preflight.Finding{preflight.Fine("server", "It is a standby, as postgres.hot_standby says.")}
	if !s.Feedback {
		f := preflight.Finding{
			Level: preflight.Warn, Subject: "hot_standby_feedback", Found: "It is off.",
			Why: "The primary does not know which catalog rows decoding needs; once VACUUM removes one, the slot " +
				"is lost (rows_removed).",
			Remedy:   "Switch it on, on the standby.",
			Commands: []string{"ALTER SYSTEM SET hot_standby_feedback = on;", "SELECT pg_reload_conf();"},
		}
		if !st.Slot.Exists {
			f.Level = preflight.Fail
		}
		out = append(out, f)
	}
	if s.PrimarySlot == "" {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: "primary_slot_name",
			Found: "The standby has no physical slot on the primary.", Why: "While the standby is away, the primary " +
				"forgets what decoding there needs, and the slot is lost (rows_removed) by the next VACUUM of " +
				"a catalog.",
			Remedy: "Create a physical slot, the first command, on " + st.Server.PrimaryName() + "; name it, the " +
				"others, on the standby.",
			Commands: []string{
				"SELECT pg_create_physical_replication_slot('standby_1', true);",
				"ALTER SYSTEM SET primary_slot_name = 'standby_1';", "SELECT pg_reload_conf();",
			},
		})
	}
	if st.Primary != nil && st.Primary.WALLevel != "logical" {
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Subject: "wal_level",
			Found: fmt.Sprintf("wal_level of the primary is %s.", st.Primary.WALLevel),
			Why: "Without logical the WAL holds too little to read rows from it, and slots on standbys are lost " +
				"(wal_level_insufficient).",
			Remedy:   "Set it on " + st.Server.PrimaryName() + ", then restart that server.",
			Commands: []string{"ALTER SYSTEM SET wal_level = 'logical';"},
		})
	}
	return out
}

// standbyPair judges a standby without the slot. What is missing on the primary cannot be made here.
func standbyPair(cfg Config, st state) preflight.Finding {
	if st.Publication.Exists && !st.pending(cfg) {
		return cfg.SlotGone(st.Server.ServerFacts)
	}
	f := preflight.Finding{
		Level: preflight.Fail, Subject: cfg.SlotSubject(),
		Found: fmt.Sprintf("Neither the slot nor %s exists.", cfg.PublicationSubject()),
		Why: "The publication can only be made on the primary, and nothing leads there: postgres.primary_dsn " +
			"is not set.",
	}
	if st.Primary != nil {
		f.Why = "Events are kept for the connector from the slot's creation on."
	}
	if st.pending(cfg) {
		f.Found = "A setup made the publication and was interrupted before it made the slot, or is still waiting " +
			"to make it."
	}
	r := fault.Do("`cdc-outbox setup` with postgres.primary_dsn does all of this. Or create the publication on " +
		st.Server.PrimaryName() + ".")
	for _, step := range planSetup(cfg.withoutExtras(), st) {
		if step.action != stepSlot {
			r.Commands = append(r.Commands, step.SQL)
		}
	}
	r = r.Then(cfg.CreateSlot(st.Server.ServerFacts))
	if st.pending(cfg) {
		r = r.Then(fault.Do("Once the slot is there, remove the mark on the publication.",
			"COMMENT ON PUBLICATION "+identifier.Quote(cfg.Publication)+" IS NULL;"))
	}
	return f.With(r)
}
