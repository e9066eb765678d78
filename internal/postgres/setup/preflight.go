package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/pooler"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// longOpen is the age from which an open transaction is worth a warning: since it began no slot's restart_lsn moves.
const longOpen = 5 * time.Minute

// Preflight looks at everything the connector needs of Postgres and changes nothing. No error: what keeps it from
// looking is a finding as well. No finding holds the DSN.
func Preflight(ctx context.Context, dsn string, cfg Config) []preflight.Finding {
	cfg = cfg.WithDefaults()
	var ways []pooler.Route
	var out []preflight.Finding
	err := withServers(ctx, dsn, cfg, func(s servers) error {
		// First: in some versions of Postgres what follows waits for a lock on the table as well, and fails.
		locked, err := s.writersWait(ctx, cfg)
		if err != nil {
			return postgres.QueryFault("locks", err)
		}
		st, err := s.readStateUnlessLocked(ctx, cfg)
		if err != nil {
			out = checkWriters(locked)
			return postgres.QueryFault("catalog", err)
		}
		st.Writers = locked
		open, err := s.openTransactions(ctx, 20)
		if err != nil {
			return postgres.QueryFault("open transactions", err)
		}
		s.peek(ctx, cfg, &st)
		st.Relays = lookupOtherRelays(ctx, s.Conn, cfg)
		if !st.Slot.Exists {
			if st.Others, err = slotNames(ctx, s.Conn); err != nil {
				return postgres.QueryFault("slots", err)
			}
		}
		before := lookupWritten(ctx, s.Conn, cfg.Tables)
		if st.Server.SlotWALKeepMB >= 0 && !st.Server.InRecovery {
			st.WAL = lookupRate(ctx, s.Conn) // which takes a while, so rows may be written
		}
		st.Written = sawWritten(before, lookupWritten(ctx, s.Conn, cfg.Tables))
		if st.Limits, st.Keepalives, err = postgres.LookupLimits(ctx, s.Conn); err != nil {
			return postgres.QueryFault("settings", err)
		}
		if st.Standbys, err = lookAtStandbys(ctx, s.Conn, cfg, st.Server); err != nil {
			return postgres.QueryFault("standbys", err)
		}
		st.Failovers, st.Unsurveyed = standbys.Survey(ctx, s.Conn, dsn, cfg.Slot, cfg.Promotable)
		ways = pooler.OnService(pooler.Probe(ctx, dsn, cfg.Slot, cfg.ConnectTimeout), st.Server.Service)
		// A role that was given a replication connection may replicate, however the service grants it.
		st.Server.MayReplicate = st.Server.MayReplicate || slices.ContainsFunc(ways, pooler.Route.Replicates)
		reader := slotReader(ctx, s, st.Slot.ActivePID)
		out = preflightFindings(cfg, st, open, reader)
		return nil
	})
	if err == nil {
		return append(out, pooler.Findings(ways)...)
	}
	if fault.KindOf(err) == fault.Operator { // a server answered: which?
		ways = pooler.Probe(ctx, dsn, cfg.Slot, cfg.ConnectTimeout)
		if preflight.FirstFailure(pooler.Findings(ways)) != nil {
			return append(out, pooler.Findings(ways)...)
		}
	}
	return append(append(out, preflightFailure(err)), pooler.Findings(ways)...)
}

func preflightFailure(err error) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Fail, Subject: "connection", Found: err.Error(),
		Why: "Nothing else can be looked at without a connection.",
	}
	var known *fault.Error
	if errors.As(err, &known) {
		f.Subject, f.Remedy, f.Commands = known.Object, known.Next, known.Commands
		f.Found = known.Err.Error() + "."
	}
	if known != nil && known.Kind == fault.Config {
		f.Why = "The configuration cannot be used as it is."
	}
	return f
}

func preflightFindings(cfg Config, st state, open []openTransaction, reader string) []preflight.Finding {
	out := []preflight.Finding{
		preflight.Fine("connection", fmt.Sprintf("Connected to database %q as role %q.", st.Server.Database,
			st.Server.User)),
	}
	out = append(out, checkServer(cfg, st)...)
	out = append(out, checkHotStandby(cfg, st)...)
	if !st.Slot.Exists {
		out = append(out, checkMistyped(cfg, st)...)
		out = append(out, checkSlotRoom(st)...)
	}
	out = append(out, checkSenderRoom(st)...)
	out = append(out, checkTables(cfg, st)...)
	foreign := cfg.ForeignSlot(st.Slot, st.Server.ServerFacts)
	switch {
	case foreign != nil:
		out = append(out, foreign...)
	case st.Server.InRecovery != cfg.HotStandby && !st.Slot.Exists: // said already
	case !st.Server.InRecovery && !st.Slot.Exists && !st.Publication.Exists:
		out = append(out, checkFirstStart(cfg, st)...)
	default:
		out = append(out, checkPair(cfg, st)...)
	}
	if st.Publication.Exists {
		out = append(out, checkPublication(cfg, st)...)
		out = append(out, checkColumnList(cfg, st)...)
	}
	if st.Slot.Exists && foreign == nil {
		out = append(out, checkSlot(cfg, st)...)
		out = append(out, checkReader(cfg, st, reader)...)
	}
	out = append(orHeal(cfg, st, out), checkHeal(cfg, st)...)
	out = append(out, checkCheckpoint(cfg, st)...)
	out = append(out, checkDecisions(cfg, st)...)
	out = append(out, checkGaps(cfg, st)...)
	out = append(out, checkWriters(st.Writers)...)
	out = append(out, checkLastWord(cfg, st)...)
	if !st.runsOut() { // otherwise the slot's finding is about the limit
		out = append(out, checkWALLimit(cfg, st))
	}
	out = append(out, checkOtherRows(st)...)
	out = append(out, checkIdleTimeout(st)...)
	out = append(out, checkSenderTimeout(st)...)
	out = append(out, checkSynchronous(cfg, st)...)
	out = append(out, checkOtherRelays(cfg, st)...)
	out = append(out, checkStandbys(cfg, st)...)
	out = append(out, checkFailover(cfg, st)...)
	out = append(out, checkEmitters(cfg, st)...)
	out = append(out, postgres.CheckLimits(st.Limits, st.Keepalives, st.Server.User)...)
	return append(out, checkOpenTransactions(st, open)...)
}

// checkFirstStart: both absent is a fault only where `run` may not create them (SetupNever).
func checkFirstStart(cfg Config, st state) []preflight.Finding {
	if obstacles := checkMayPublish(cfg, st); len(obstacles) > 0 {
		return obstacles
	}
	level, why := preflight.Warn, "Events committed before the slot exists are not published. `run` creates both, "+
		"for postgres.setup is auto."
	if cfg.SetupNever {
		level, why = preflight.Fail, "Events committed before the slot exists are not published, and `run` does not "+
			"create it, for postgres.setup is never."
	}
	return []preflight.Finding{{
		Level: level, Subject: cfg.SlotSubject(),
		Found:    fmt.Sprintf("Neither the slot nor %s exists yet.", cfg.PublicationSubject()),
		Why:      why,
		Remedy:   "Create both: `cdc-outbox setup` does this; or run as the table's owner.",
		Commands: stepCommands(planSetup(cfg.withoutExtras(), st)),
	}}
}

func checkSlotRoom(st state) []preflight.Finding {
	s := st.Server
	if s.UsedSlots < s.MaxSlots {
		return []preflight.Finding{
			preflight.Fine("max_replication_slots", fmt.Sprintf("%d of %d slots are in use.", s.UsedSlots, s.MaxSlots)),
		}
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Fail, Code: codeNoSlot, Subject: "max_replication_slots",
		Found: fmt.Sprintf("All %d slots are in use.", s.MaxSlots), Why: "The connector needs one of its own.",
	}.With(fault.Do("Drop a slot that no session reads, or allow more slots.",
		"SELECT slot_name, active FROM pg_replication_slots;").
		Then(s.Service.With(s.Service.Set("max_replication_slots", strconv.Itoa(s.MaxSlots+5), true))))}
}

func checkSenderRoom(st state) []preflight.Finding {
	s := st.Server
	if s.UsedSenders < s.MaxSenders || st.Slot.ActivePID != 0 {
		return []preflight.Finding{
			preflight.Fine("max_wal_senders",
				fmt.Sprintf("%d of %d WAL senders are in use.", s.UsedSenders, s.MaxSenders)),
		}
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Fail, Code: codeNoSender, Subject: "max_wal_senders",
		Found: fmt.Sprintf("All %d WAL senders are in use.", s.MaxSenders), Why: "The stream is served by one.",
	}.With(s.Service.With(s.Service.Set("max_wal_senders", strconv.Itoa(s.MaxSenders+5), true)))}
}

// slotReader describes the session that reads the slot, as far as the connected role may see it.
func slotReader(ctx context.Context, q postgres.Querier, pid int) string {
	if pid == 0 {
		return ""
	}
	reader := fmt.Sprintf("pid %d", pid)
	var user, application, address string
	err := q.QueryRow(ctx,
		`SELECT coalesce(usename, ''), coalesce(application_name, ''), coalesce(host(client_addr), '')
		FROM pg_catalog.pg_stat_activity WHERE pid = $1::int`, pid).Scan(&user, &application, &address)
	if err != nil {
		return reader
	}
	reader += fmt.Sprintf(", role %q, application %q", user, application)
	if address != "" {
		reader += ", from " + address
	}
	return reader
}

// checkReader: a slot that is read is read either by this connector or by another program; a second connector waits for
// it.
func checkReader(cfg Config, st state, reader string) []preflight.Finding {
	if st.Slot.ActivePID == 0 {
		return nil
	}
	return []preflight.Finding{
		preflight.Fine(cfg.SlotSubject(),
			fmt.Sprintf("It is being read by %s; a second connector waits until the first ends.", reader)),
	}
}

// checkOpenTransactions warns of transactions that keep every slot's restart_lsn where it is.
func checkOpenTransactions(st state, open []openTransaction) []preflight.Finding {
	var out []preflight.Finding
	hidden := 0
	for _, t := range open {
		if t.Age < 0 {
			hidden++
			continue
		}
		if t.age() < longOpen {
			continue
		}
		subject := "open transaction"
		if t.PID == 0 {
			subject = "prepared transaction"
		}
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: subject, Found: "There is " + t.String() + ".",
			Why: "Since it began, Postgres keeps all WAL for the slot, and a new slot cannot be finished " +
				"before it ends.",
		}.With(t.remedy()))
	}
	if len(out) == 0 && hidden == 0 {
		return []preflight.Finding{
			preflight.Fine("open transactions", fmt.Sprintf("None that has written is older than %s.", longOpen)),
		}
	}
	if hidden > 0 && !st.Server.MaySeeOthers {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: "open transactions",
			Found: fmt.Sprintf("%d have written, and role %q may not see for how long they are open.", hidden,
				st.Server.User),
			Why:      "One that stays open holds back the slot.",
			Remedy:   "Let the role see the sessions of others.",
			Commands: []string{fmt.Sprintf("GRANT pg_read_all_stats TO %s;", identifier.Quote(st.Server.User))},
		})
	}
	return out
}
