package statetables

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// DecisionsDDL creates the table of operators' decisions. Who decided is the session's user, whatever the command says.
func DecisionsDDL(t identifier.Table) string {
	return fmt.Sprintf(`CREATE TABLE %[1]s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, relay text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('halted', 'pass', 'pause', 'resume')), position text, event_id text,
  action text CHECK (action IN ('dead_letter', 'skip')), reason text NOT NULL,
  decided_at timestamptz NOT NULL DEFAULT now(), decided_by text NOT NULL DEFAULT session_user,
  decided_from text NOT NULL, taken_at timestamptz, taken_by text, taken_lsn text, closed_at timestamptz);
CREATE INDEX ON %[1]s (relay, position);`, t.SQL())
}

// DecisionsRights are what the relay's role, and the role of an operator who decides, needs.
const DecisionsRights = "SELECT, INSERT, UPDATE, DELETE"
