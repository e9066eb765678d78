package statetables

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// CheckpointRights are the rights that the relay's role needs.
const CheckpointRights = "SELECT, INSERT, UPDATE, DELETE"

// CheckpointDDL creates the table, in which each slot has a row: everything up to position that came through the slot
// is published, writes counts how often that was written, and last_word is why a relay ended
// (internal/postgres/lastword). The fill factor leaves room for the row's next version on its own page, so nothing has
// to be vacuumed.
func CheckpointDDL(t identifier.Table) string {
	return fmt.Sprintf("CREATE TABLE %s (slot text PRIMARY KEY, system_id text NOT NULL, timeline int NOT NULL, "+
		"position pg_lsn NOT NULL,\n"+
		"  updated_at timestamptz NOT NULL DEFAULT now(), writes bigint NOT NULL DEFAULT 0, last_word jsonb) "+
		"WITH (fillfactor = 10);",
		t.SQL())
}

// CheckpointWritesDDL gives a table of an earlier version the number of writes.
func CheckpointWritesDDL(t identifier.Table) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS writes bigint NOT NULL DEFAULT 0;", t.SQL())
}

// CheckpointLastWordDDL gives a table of an earlier version the last word.
func CheckpointLastWordDDL(t identifier.Table) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS last_word jsonb;", t.SQL())
}
