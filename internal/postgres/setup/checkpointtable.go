package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
)

// checkpointInfo is the table that remembers the slot's position, as the catalog has it.
type checkpointInfo struct {
	Wanted    bool
	Exists    bool
	Usable    bool // by the connected role
	MayCreate bool // the connected role, in the table's schema
	Numbered  bool // it has the column writes
	Explains  bool // it has the column last_word
	Owned     bool // the connected role may alter it

	Confirmed *time.Time // when the slot's position was last written; nil: never, or not known

	Word *lastword.Word // why the slot's connector ended; nil: nothing is known
}

func lookupCheckpointTable(ctx context.Context, q postgres.Querier, t identifier.Table, slot string,
) (checkpointInfo, error) {
	m := checkpointInfo{Wanted: t.Name != ""}
	if !m.Wanted {
		return m, nil
	}
	err := q.QueryRow(ctx, `
		SELECT c.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
			AND has_table_privilege(c.oid, 'INSERT')
		       AND has_table_privilege(c.oid, 'UPDATE'), false), has_schema_privilege(n.oid, 'CREATE'),
		       EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'writes'
		           AND NOT a.attisdropped),
		       EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'last_word'
		           AND NOT a.attisdropped), coalesce(pg_has_role(c.relowner, 'USAGE'), false)
		  FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
		    AND c.relname = $2::text
		 WHERE n.nspname = $1::text`, t.Schema, t.Name).Scan(&m.Exists, &m.Usable, &m.MayCreate, &m.Numbered,
		&m.Explains, &m.Owned)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read table %s: %w", t, err)
	}
	if m.Usable {
		if m.Confirmed, err = postgres.LookupConfirmed(ctx, q, t, slot); err != nil {
			return m, fmt.Errorf("read table %s: %w", t, err)
		}
	}
	if m.Usable && m.Explains {
		if m.Word, _, err = lastword.Lookup(ctx, q, t, slot); err != nil {
			return m, fmt.Errorf("read table %s: %w", t, err)
		}
	}
	return m, nil
}

// planCheckpoint creates the table and lets the role use it.
func planCheckpoint(cfg Config, st state) []Step {
	var steps []Step
	if cfg.Checkpoint.Name == "" || cfg.onlyNeeded && !st.Checkpoint.MayCreate {
		return nil
	}
	if !st.Checkpoint.Exists && !(cfg.onlyNeeded && (st.Publication.Exists || st.Slot.Exists)) {
		steps = append(steps, Step{
			SQL: statetables.CheckpointDDL(cfg.Checkpoint),
			Why: "Remembers how far the slot is confirmed, so that a slot that is re-created or moved by hand is " +
				"noticed, and so that a server that was put back to an older state is. One row a slot, updated ten " +
				"times a second at most.",
		})
	}
	if st.Checkpoint.Exists && !st.Checkpoint.Numbered && (!cfg.onlyNeeded || st.Checkpoint.Owned) {
		steps = append(steps, Step{
			SQL: statetables.CheckpointWritesDDL(cfg.Checkpoint),
			Why: "Counts the writes of a slot's row, so that a server that was put back to an older state is noticed.",
		})
	}
	if st.Checkpoint.Exists && !st.Checkpoint.Explains && (!cfg.onlyNeeded || st.Checkpoint.Owned) {
		steps = append(steps, Step{
			SQL: statetables.CheckpointLastWordDDL(cfg.Checkpoint),
			Why: "Keeps why the connector ended, so that `cdc-outbox status` can say so while it does not run.",
		})
	}
	if cfg.Role != "" && !st.Role.MayStore {
		steps = append(steps, Step{
			SQL: cfg.grantCheckpoint(cfg.Role),
			Why: "It writes down there how far the slot is confirmed.",
		})
	}
	return steps
}

func (cfg Config) grantCheckpoint(role string) string {
	return fmt.Sprintf("GRANT %s ON TABLE %s TO %s;", statetables.CheckpointRights, cfg.Checkpoint.SQL(),
		identifier.Quote(role))
}

// checkpointDenied is why the connector cannot use the table, which it waits for; nil where it can.
func checkpointDenied(cfg Config, st state) error {
	if !st.Checkpoint.Exists || st.Checkpoint.Usable {
		return nil
	}
	return (&fault.Error{
		Kind: fault.Operator, Object: "table " + cfg.Checkpoint.String(),
		Err: fmt.Errorf("role %q may not use it, and the connector waits until it may", st.Server.User),
	}).With(fault.Do("Grant the rights.", cfg.grantCheckpoint(st.Server.User)))
}

// checkLastWord reports why the connector ended, where none has worked since.
func checkLastWord(cfg Config, st state) []preflight.Finding {
	w := st.Checkpoint.Word
	if !w.Current() || st.Slot.ActivePID != 0 {
		return nil
	}
	if st.Slot.Invalidated() && slices.Equal(w.Commands, postgres.ReplaceLost().Commands) {
		return nil // the finding about the slot says the same
	}
	return []preflight.Finding{{
		Level: preflight.Warn, Subject: cfg.SlotSubject(), Found: w.Explain(),
		Why:    "No connector has worked since. If the cause no longer exists, start the connector.",
		Remedy: w.Next, Commands: w.Commands,
	}}
}

func checkCheckpoint(cfg Config, st state) []preflight.Finding {
	m := st.Checkpoint
	if !m.Wanted || st.Server.InRecovery && st.Primary == nil {
		return nil
	}
	subject := "table " + cfg.Checkpoint.String()
	const why = "A slot that was dropped and re-created, or moved by hand, looks like the slot before; what lies " +
		"between would be lost without notice."
	grant := cfg.grantCheckpoint(st.Server.User)
	switch {
	case m.Exists && m.Usable && !m.Numbered:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: "It was created by an earlier version and has no column " +
				"writes.",
			Why: "A server that was put back to an older state, from a snapshot of its disk for example, is not " +
				"noticed once its log has grown past the old position.",
			Remedy:   "Add the column as the table's owner: `cdc-outbox setup` does this. Then restart the connector.",
			Commands: []string{statetables.CheckpointWritesDDL(cfg.Checkpoint)},
		}}
	case m.Exists && m.Usable && !m.Explains:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: "It was created by an earlier version and has no column " +
				"last_word.",
			Why: "Why the connector ended is then only in its log, and an alert about a crash loop is sent at each " +
				"restart.",
			Remedy:   "Add the column as the table's owner: `cdc-outbox setup` does this.",
			Commands: []string{statetables.CheckpointLastWordDDL(cfg.Checkpoint)},
		}}
	case m.Exists && m.Usable:
		return []preflight.Finding{preflight.Fine(subject, "It remembers how far the slot is confirmed, and counts "+
			"its "+
			"writes.")}
	case m.Exists:
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject, Found: fmt.Sprintf("Role %q may not use it.", st.Server.User),
			Why: why, Remedy: "Grant the rights.", Commands: []string{grant},
		}}
	case !st.Slot.Exists && !st.Publication.Exists:
		return nil // made with them
	}
	return []preflight.Finding{{
		Level: preflight.Warn, Subject: subject, Found: "Nothing remembers how far the slot is confirmed.", Why: why,
		Remedy:   "Create the table: `cdc-outbox setup` does this. Or set postgres.checkpoint to nothing.",
		Commands: []string{statetables.CheckpointDDL(cfg.Checkpoint), grant},
	}}
}
