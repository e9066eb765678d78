package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/pooler"
)

// Ensure makes sure that publication and slot are there and fit, before anything is streamed.
//
// With both absent and auto set it creates them, the publication first; two processes may do so at the same time. With
// one of them absent it creates nothing: that is a lost slot or a lost publication, hence a gap, and the error says
// what to run. With auto unset it only looks. It never creates a table.
//
// Errors are *fault.Error: Retry for what passes (no connection, a slot that could not be created yet because
// transactions are open), Operator for what an operator has to fix, Config for names that cannot be.
func Ensure(ctx context.Context, dsn string, cfg Config, auto bool) error {
	cfg = cfg.WithDefaults().withoutExtras()
	return withServer(ctx, dsn, cfg, func(s servers) error {
		if _, err := ensure(ctx, s, cfg, auto); err != nil {
			return err
		}
		return mayStream(ctx, s, dsn, cfg)
	})
}

// mayStream reports a role that may not see the standbys that are to be waited for, and a role that may not replicate
// with the server's own remedy, which on a managed service differs from the remedy for START_REPLICATION's refusal. The
// catalog alone proves nothing: services grant it in ways of their own.
func mayStream(ctx context.Context, s servers, dsn string, cfg Config) error {
	server, err := postgres.LookupServer(ctx, s.Conn)
	if err != nil {
		return postgres.QueryFault("server", err)
	}
	if err := preflight.FirstFailure(maySeeStandbys(cfg, server)); err != nil {
		return err
	}
	if server.MayReplicate {
		return nil
	}
	ways := pooler.Probe(ctx, dsn, cfg.Slot, cfg.ConnectTimeout)
	if slices.ContainsFunc(ways, pooler.Route.Replicates) || !slices.ContainsFunc(ways, pooler.Route.LacksRight) {
		return nil
	}
	return preflight.FirstFailure([]preflight.Finding{mayNotReplicate(server)})
}

// Run does what PlanSetup lists: it creates table and grants where cfg asks for them, and publication and slot when
// both are absent. It returns the steps done, none when everything was there. Like Ensure it refuses to make a slot
// for a publication whose slot was lost.
func Run(ctx context.Context, dsn string, cfg Config) (done []Step, err error) {
	cfg = cfg.WithDefaults()
	err = withServer(ctx, dsn, cfg, func(s servers) error {
		done, err = ensure(ctx, s, cfg, true)
		return err
	})
	return done, err
}

// Plan lists what Setup would do and changes nothing. The same refusals are its errors; the steps come along, unless
// publication or slot was lost: then they would hide a gap.
func Plan(ctx context.Context, dsn string, cfg Config) (steps []Step, err error) {
	cfg = cfg.WithDefaults()
	err = withServer(ctx, dsn, cfg, func(s servers) error {
		st, err := s.readState(ctx, cfg)
		if err != nil {
			return postgres.QueryFault("catalog", err)
		}
		err = preflight.FirstFailure(obstacles(cfg, st))
		if cfg.ForeignSlot(st.Slot, st.Server.ServerFacts) == nil &&
			(err == nil || st.Publication.Exists == st.Slot.Exists || st.pending(cfg) || st.joins(cfg)) {
			steps = append(planSetup(cfg, st), planColumnList(cfg, st)...)
		}
		return err
	})
	return steps, err
}

func withAdminConn(ctx context.Context, dsn string, cfg Config, use func(*pgx.Conn) error) error {
	return withRoute(ctx, dsn, cfg, func(conn *pgx.Conn, _ pooler.Route) error { return use(conn) })
}

// withRoute connects and looks at the path there. Where another backend's pid answers no statement is prepared: a
// pooler that lends out its connections forgets them, or has them already.
func withRoute(ctx context.Context, dsn string, cfg Config, use func(*pgx.Conn, pooler.Route) error) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	options := postgres.ConnectOptions{Timeout: cfg.ConnectTimeout}
	conn, err := postgres.Open(ctx, dsn, options)
	if err != nil {
		return err
	}
	defer func() { postgres.CloseConn(conn) }()
	var w pooler.Route
	if err := w.Survey(ctx, conn.PgConn()); err != nil {
		return postgres.QueryFault("server", err)
	}
	if w.Relayed() {
		options.Unprepared = true
		again, err := postgres.Open(ctx, dsn, options)
		if err != nil {
			return err
		}
		postgres.CloseConn(conn)
		conn = again
	}
	return use(conn, w)
}

// withServer is withServers for what must not go through a pooler: a slot that setup makes through one that the stream
// does not come through holds back WAL for no reader.
func withServer(ctx context.Context, dsn string, cfg Config, use func(servers) error) error {
	return withRoute(ctx, dsn, cfg, func(conn *pgx.Conn, w pooler.Route) error {
		if w.Suspicious() {
			if err := preflight.FirstFailure(
				pooler.Findings(pooler.Probe(ctx, dsn, cfg.Slot, cfg.ConnectTimeout)),
			); err != nil {
				return err
			}
		}
		return withPrimary(ctx, conn, cfg, use)
	})
}

func ensure(ctx context.Context, s servers, cfg Config, auto bool) ([]Step, error) {
	st, unlock, err := awaitTurn(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	if unlock == nil {
		return nil, preflight.FirstFailure(verdict(cfg, st))
	}
	defer unlock()
	if !auto {
		return nil, preflight.FirstFailure(append(checkTables(cfg, st), verdict(cfg, st)...))
	}
	if err := preflight.FirstFailure(obstacles(cfg, st)); err != nil {
		return nil, err
	}
	return carryOut(ctx, s, cfg)
}

// complete reports whether nothing is to be created, and no mark of an unfinished setup removed.
func (st state) complete(cfg Config) bool {
	return st.Publication.Exists && st.Slot.Exists && !st.pending(cfg) && len(planSetup(cfg, st)) == 0
}

// verdict judges a setup that should be complete.
func verdict(cfg Config, st state) []preflight.Finding {
	if out := checkPair(cfg, st); len(out) > 0 {
		return out
	}
	if st.Snapshot.CutOver && cfg.cutOver == nil {
		return []preflight.Finding{cutOverUnfinished(cfg)}
	}
	out := append(checkHotStandby(cfg, st), orHeal(cfg, st, checkSlot(cfg, st))...)
	return append(append(out, checkTables(cfg, st)...), checkPublication(cfg, st)...)
}

// situation is what a setup finds of publication and slot.
type situation uint8

const (
	established        situation = iota // publication, slot or both exist, and no setup is pending
	fresh                               // neither publication nor slot exists
	resumed                             // an earlier setup made the publication and not yet the slot
	joined                              // the publication is there, and the slot is new by the operator's word
	foreign                             // the slot of this name cannot be the relay's
	cutOverInterrupted                  // a cutover began that only another cutover may finish
)

func (st state) situation(cfg Config) situation {
	switch {
	case cfg.ForeignSlot(st.Slot, st.Server.ServerFacts) != nil:
		return foreign
	case st.Snapshot.CutOver && cfg.cutOver == nil:
		return cutOverInterrupted
	case !st.Publication.Exists && !st.Slot.Exists:
		return fresh
	case st.pending(cfg) && !st.Slot.Exists:
		return resumed
	case st.joins(cfg):
		return joined
	}
	return established
}

// joins reports whether a new slot is to read a publication that is there already.
func (st state) joins(cfg Config) bool {
	return cfg.NewSlot && st.Publication.Exists && !st.Slot.Exists && !st.Remembered
}

// obstacles finds what would interrupt a setup, or hide a gap, before anything is done.
func obstacles(cfg Config, st state) []preflight.Finding {
	now := st.situation(cfg)
	switch now {
	case foreign:
		return cfg.ForeignSlot(st.Slot, st.Server.ServerFacts)
	case cutOverInterrupted:
		return []preflight.Finding{cutOverUnfinished(cfg)}
	case established:
		out := checkPair(cfg, st)
		if len(out) == 0 && st.Slot.Invalidated() { // then not everything is there
			out = orHeal(cfg, st, []preflight.Finding{cfg.SlotInvalidated(st.Slot, st.Server.ServerFacts)})
		}
		return append(out, tableObstacles(cfg, st)...)
	}
	if wrong := wrongServer(cfg, st); wrong != nil {
		return wrong
	}
	out := append(checkServer(cfg, st), checkSlotRoom(st)...)
	out = append(out, tableObstacles(cfg, st)...)
	switch {
	case now == fresh:
		out = append(out, checkMayPublish(cfg, st)...)
	case now == joined:
		out = append(out, checkPublication(cfg, st)...)
	case !st.Publication.Owned:
		out = append(out, checkPair(cfg, st)...)
	}
	return out
}

// wrongServer finds why nothing can be created from this server.
func wrongServer(cfg Config, st state) []preflight.Finding {
	if role := checkHotStandby(cfg, st); preflight.FirstFailure(role) != nil {
		return role
	}
	if st.Server.InRecovery && st.Primary == nil {
		return []preflight.Finding{standbyPair(cfg, st)}
	}
	return nil
}

// tableObstacles judges the tables. A table must not begin to take rows that a publication or slot then does not let
// through, so where a missing table is to be created, the others are judged with publication and slot.
func tableObstacles(cfg Config, st state) []preflight.Finding {
	if cfg.TableDDL == "" || !st.lacksTable() {
		return checkTables(cfg, st)
	}
	existing := st.withoutMissing()
	out := checkTables(cfg, existing)
	if st.Publication.Exists {
		out = append(out, checkPublication(cfg, existing)...)
	}
	if st.Slot.Exists {
		out = append(out, checkSlot(cfg, existing)...)
	}
	return out
}

// withoutMissing leaves out the tables that are to be created.
func (st state) withoutMissing() state {
	var there []postgres.OutboxTable
	for _, t := range st.Tables {
		if t.Exists || t.Meant != nil {
			there = append(there, t)
		}
	}
	st.Tables = there
	return st
}

// checkMayPublish: CREATE PUBLICATION takes CREATE on the database and ownership of each table.
func checkMayPublish(cfg Config, st state) []preflight.Finding {
	found := ""
	if !st.Server.MayCreate {
		found = fmt.Sprintf("Role %q lacks CREATE on database %q.", st.Server.User, st.Server.Database)
	}
	for _, t := range st.Tables {
		if t.Exists && !t.Owned {
			found = fmt.Sprintf("Role %q does not own table %s.", st.Server.User, t.Table)
		}
	}
	if found == "" {
		return nil
	}
	return []preflight.Finding{{
		Level: preflight.Fail, Subject: cfg.PublicationSubject(), Found: found,
		Why:      "Postgres asks for both of the role that creates a publication.",
		Remedy:   "Run `cdc-outbox setup` once as the table's owner, or run the commands as the owner.",
		Commands: stepCommands(planSetup(cfg.withoutExtras(), st)),
	}}
}
