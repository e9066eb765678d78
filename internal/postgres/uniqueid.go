package postgres

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// codeUniqueID is the code of the finding about ids. Programs rely on it.
const codeUniqueID = "id_not_unique"

// CheckUniqueID warns of a table in which two events may have one id, nil if they cannot. Consumers, repair and find
// know an event by its id.
func CheckUniqueID(t OutboxTable, column string) *preflight.Finding {
	if _, exists := t.Column(column); !exists || t.UniqueBy(column) {
		return nil
	}
	id := identifier.Quote(column)
	key := []string{id}
	for _, c := range t.PartitionBy {
		if c != column {
			key = append(key, identifier.Quote(c))
		}
	}
	f := preflight.Finding{
		Level: preflight.Warn, Code: codeUniqueID, Subject: "table " + t.Table.String(),
		Found: fmt.Sprintf("No unique index keeps two rows from having the same %s.", id),
		Why: "It is the event's id. Consumers pass over the second event as a repeat of the first, and repair finds " +
			"nothing missing as long as one of them is published.",
	}
	concurrently := "CONCURRENTLY "
	if t.Partitioned() {
		concurrently = "" // which Postgres does not have for partitioned tables
	}
	f = f.With(fault.Do("Correct rows that the query returns, then create the index as the table's owner.",
		fmt.Sprintf("SELECT %[1]s, count(*) FROM %[2]s GROUP BY %[1]s HAVING count(*) > 1;", id, t.Table.SQL()),
		fmt.Sprintf("CREATE UNIQUE INDEX %sON %s (%s);", concurrently, t.Table.SQL(), strings.Join(key, ", "))))
	return &f
}
