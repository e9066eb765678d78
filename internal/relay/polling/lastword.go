package polling

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
)

const whyLastWord = "Keeps why the relay ended, so that `cdc-outbox status` can say so while it does not run."

// planLastWord creates the table that keeps why a relay ended, or adds the column that an earlier version did not have.
func planLastWord(ctx context.Context, conn *pgx.Conn, s *Setup) ([]setup.Step, error) {
	if s.LastWord.Name == "" {
		return nil, nil
	}
	var exists, explains bool
	err := conn.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL, EXISTS (SELECT FROM pg_catalog.pg_attribute
		WHERE attrelid = to_regclass($1::text) AND attname = 'last_word' AND NOT attisdropped)`,
		s.LastWord.SQL()).Scan(&exists, &explains)
	switch {
	case err != nil:
		return nil, postgres.QueryFault("table "+s.LastWord.String(), err)
	case !exists:
		return []setup.Step{createLastWord(s)}, nil
	case !explains:
		return []setup.Step{{SQL: statetables.CheckpointLastWordDDL(s.LastWord), Why: whyLastWord}}, nil
	}
	return nil, nil
}

// planKept creates the tables beside the outbox: of the last word, and of operators' decisions.
func planKept(ctx context.Context, conn *pgx.Conn, s *Setup) ([]setup.Step, error) {
	steps, err := planLastWord(ctx, conn, s)
	if err != nil {
		return nil, err
	}
	decisions, err := setup.PlanDecisions(ctx, conn, s.Decisions)
	if err != nil {
		return nil, postgres.QueryFault("table "+s.Decisions.String(), err)
	}
	return append(steps, decisions...), nil
}

// checkKept looks at the tables in which the relay keeps why it ended, and reads operators' decisions.
func checkKept(ctx context.Context, conn *pgx.Conn, s *Setup, role string) ([]preflight.Finding, error) {
	var out []preflight.Finding
	if missing, err := planLastWord(ctx, conn, s); err != nil {
		return nil, err
	} else if len(missing) > 0 {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: "table " + s.LastWord.String(),
			Found: "It does not exist, or lacks a column, so why the relay ended is only in its log.", Why: whyLastWord,
			Remedy: "Create it.", Commands: []string{"cdc-outbox setup"},
		})
	}
	decisions, err := setup.CheckDecisions(ctx, conn, s.Decisions, role)
	return append(out, decisions...), err
}

func createLastWord(s *Setup) setup.Step {
	return setup.Step{SQL: statetables.CheckpointDDL(s.LastWord), Why: whyLastWord}
}
