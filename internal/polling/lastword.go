package polling

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/setup"
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
		return []setup.Step{{SQL: postgres.CheckpointLastWordDDL(s.LastWord), Why: whyLastWord}}, nil
	}
	return nil, nil
}

func createLastWord(s *Setup) setup.Step {
	return setup.Step{SQL: postgres.CheckpointDDL(s.LastWord), Why: whyLastWord}
}
