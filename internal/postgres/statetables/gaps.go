package statetables

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// GapsDDL creates the table of the gaps in a slot's account of the outbox. A gap lies between two positions, not known
// where from_lsn is NULL, not ended where to_lsn is NULL, and is open until it is settled. Besides, each slot has one
// row of cause 'none': up to to_lsn nothing was found that hid rows, evidence is by what that was judged, and
// transactions that run began after from_lsn (internal/postgres/gap).
func GapsDDL(t identifier.Table) string {
	return fmt.Sprintf(`CREATE TABLE %[1]s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot text NOT NULL,
  cause text NOT NULL, what text NOT NULL DEFAULT '', system_id text NOT NULL,
  from_lsn pg_lsn, from_at timestamptz, to_lsn pg_lsn, to_at timestamptz,
  found_at timestamptz NOT NULL DEFAULT now(), found_by text NOT NULL DEFAULT session_user,
  settled_at timestamptz, settled_by text, settled_how text CHECK (settled_how IN ('repaired', 'dismissed', 'dropped')),
  missing bigint, published bigint, reason text,
  evidence jsonb, mark jsonb, revision bigint NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX ON %[1]s (slot) WHERE cause = 'none';`, t.SQL())
}

// GapsRights are the rights of the relay's role, and of the role that repairs.
const GapsRights = "SELECT, INSERT, UPDATE, DELETE"
