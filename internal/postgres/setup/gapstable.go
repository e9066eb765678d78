package setup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
)

// gapsInfo is the table of gaps: as the catalog has it, and the open gaps of the slot.
type gapsInfo struct {
	decisionsInfo

	Open  []gap.Gap
	Begun bool // the slot has an account; for teardown
}

func lookupGaps(ctx context.Context, q postgres.Querier, cfg Config) (g gapsInfo, err error) {
	if g.decisionsInfo, err = lookupDecisionsTable(ctx, q, cfg.Gaps(), cfg.Role); err != nil || !g.Usable {
		return g, err
	}
	if g.Open, err = gap.Of(cfg.Objects).Open(ctx, q); err != nil {
		return g, fmt.Errorf("read table %s: %w", cfg.Gaps(), err)
	}
	return g, nil
}

// planGaps creates the table and lets the role use it, as planDecisions does.
func planGaps(cfg Config, st state) (steps []Step) {
	t := cfg.Gaps()
	begun := st.Publication.Exists || st.Slot.Exists
	if t.Name == "" || cfg.onlyNeeded && (!st.Gaps.MayCreate || begun) {
		return nil
	}
	if !st.Gaps.Exists {
		steps = append(steps, Step{
			SQL: statetables.GapsDDL(t),
			Why: "Keeps what made the stream incomplete, a publication that was changed or a slot that was lost, " +
				"until it is settled.",
		})
	}
	if cfg.Role != "" && !st.Gaps.Granted {
		steps = append(steps, Step{
			SQL: cfg.grantGaps(cfg.Role), Why: "It writes down there what may be missing, and what was repaired.",
		})
	}
	return steps
}

func (cfg Config) grantGaps(role string) string {
	return fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", statetables.GapsRights, cfg.Gaps().SQL(), identifier.Quote(role))
}

// checkGaps reports what may be missing from Kafka, and whether it would be noticed.
func checkGaps(cfg Config, st state) []preflight.Finding {
	const why = "A publication that was changed and changed back, or a slot that was replaced, leaves events out of " +
		"Kafka, and nothing would say so afterwards."
	subject := "table " + cfg.Gaps().String()
	switch {
	case st.Server.InRecovery && st.Primary == nil || !st.Slot.Exists && !st.Publication.Exists:
		return nil
	case cfg.Gaps().Name == "":
		return []preflight.Finding{
			preflight.Fine("postgres.checkpoint", "It is off, as configured, so gaps in the stream are kept nowhere "+
				"either."),
		}
	case !st.Gaps.Exists:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject,
			Found: "It does not exist, so gaps in the stream are kept nowhere.",
			Why:   why, Remedy: "Create it, then restart the connector.", Commands: []string{"cdc-outbox setup"},
		}}
	case !st.Gaps.Usable:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: fmt.Sprintf("Role %q may not use it.", st.Server.User),
			Why: why, Remedy: "Grant the rights.", Commands: []string{cfg.grantGaps(st.Server.User)},
		}}
	}
	switch {
	case len(st.Gaps.Open) > 0:
	case st.Slot.Invalidated() || !st.Slot.Exists:
		return []preflight.Finding{preflight.Fine(subject, "It will keep the gap that replacing the slot opens.")}
	default:
		return []preflight.Finding{preflight.Fine(subject, "No gap in the stream is open.")}
	}
	var out []preflight.Finding
	for i := range st.Gaps.Open {
		one := st.Gaps.Open[i : i+1]
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Code: codeGap, Subject: cfg.SlotSubject(), Found: one[0].Sentence(),
			Why: "Consumers may lack events, and what brought that about may look right by now.",
		}.With(gap.Remedy(one)))
	}
	return out
}

// codeGap is the code of findings about open gaps. Programs rely on it.
const codeGap = "gap"

// planGapsTeardown ends the slot's account. Open gaps are settled with it: a later slot of this name has its own.
func planGapsTeardown(cfg Config, st state, dropTables bool) (steps []Step) {
	t := cfg.Gaps()
	if !st.Gaps.Exists {
		return nil
	}
	slot := identifier.QuoteLiteral(cfg.Slot)
	if st.Gaps.Begun {
		steps = append(steps, Step{
			SQL: fmt.Sprintf("DELETE FROM %s WHERE slot = %s AND cause = 'none';", t.SQL(), slot),
			Why: "A later slot of this name has an account of its own.",
		})
	}
	if len(st.Gaps.Open) > 0 {
		steps = append(steps, Step{
			SQL: fmt.Sprintf("UPDATE %s SET settled_at = now(), settled_by = session_user, settled_how = 'dropped' "+
				"WHERE slot = %s AND cause <> 'none' AND settled_at IS NULL;", t.SQL(), slot),
			Why: "What may be missing from Kafka is of the slot that is dropped.",
		})
	}
	drop := fmt.Sprintf("DROP TABLE %s;", t.SQL())
	switch {
	case !dropTables:
		return append(steps, Step{
			SQL: "-- " + drop, action: stepKept,
			Why: fmt.Sprintf("Table %s is kept: it is the record of what may be missing from Kafka. Drop it if it is "+
				"not needed.", t),
		})
	case st.Gaps.Shared:
		return append(steps, Step{
			SQL: "-- " + drop, action: stepKept, Why: fmt.Sprintf("Table %s is kept: other slots have gaps there.", t),
		})
	}
	return append(steps, Step{SQL: drop, Why: "Asked for. It is the record of what may be missing from Kafka."})
}

// lookupGapsUse reads what teardown has to know.
func lookupGapsUse(ctx context.Context, q postgres.Querier, cfg Config, g *gapsInfo) error {
	if !g.Exists || !g.Usable {
		return nil
	}
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(bool_or(slot <> $1::text), false),
		coalesce(bool_or(slot = $1::text AND cause = 'none'), false) FROM %s`, cfg.Gaps().SQL()), cfg.Slot).
		Scan(&g.Shared, &g.Begun)
	if err != nil {
		return postgres.QueryFault("table "+cfg.Gaps().String(), err)
	}
	return nil
}

// openGap opens a gap from where the slot was left to where it is now, if something may lie between the two. Without
// the table nothing is kept, which `check` says.
func openGap(ctx context.Context, conn *pgx.Conn, cfg Config, before, now SlotReport, cause string) error {
	info, err := lookupGaps(ctx, conn, cfg)
	what := cfg.movedHow(before, now, cause)
	if err != nil || !info.Usable || what == "" {
		return err
	}
	from := before.Remembered
	if from == "" && cause != gap.SlotAccepted {
		from = before.ConfirmedFlushLSN
	}
	err = gap.Of(cfg.Objects).Begin(ctx, conn, gap.Gap{
		Cause: cause, What: what, SystemID: now.SystemID, FromLSN: from, ToLSN: now.ConfirmedFlushLSN,
	})
	if err != nil {
		return postgres.QueryFault("table "+cfg.Gaps().String(), err)
	}
	return nil
}

// movedHow is why events may lie between the slot's old and new positions; empty: none do.
func (cfg Config) movedHow(before, now SlotReport, cause string) string {
	other := before.Remembered != "" && before.RememberedID != now.SystemID
	kept, _ := lsn.Parse(before.Remembered) // 0 where nothing is remembered
	switch {
	case cause == gap.SlotRecreated && cfg.fill != nil:
		return "the slot was lost, and created again as on_gap: heal has it"
	case cause == gap.SlotRecreated:
		return "the slot was created again by `cdc-outbox slot recreate`"
	case cause == gap.SlotAdvanced:
		return "the slot was moved by `cdc-outbox slot advance`"
	case other:
		return fmt.Sprintf("the slot was accepted on another cluster, system identifier %s, before %s, whose "+
			"positions the first one is of", now.SystemID, before.RememberedID)
	case before.Remembered == "" || now.info.ConfirmedFlush > kept:
		return "the slot was accepted beyond the last confirmed position"
	}
	return ""
}

// beginAccount begins the account of a slot. made says that this process has made the slot a moment ago.
func beginAccount(ctx context.Context, conn *pgx.Conn, cfg Config, st state, made bool) error {
	if !st.Gaps.Usable || !st.Slot.Exists {
		return nil
	}
	if err := gap.Of(cfg.Objects).BeginAccount(ctx, conn, made); err != nil {
		return postgres.QueryFault("table "+cfg.Gaps().String(), err)
	}
	return nil
}
