package postgres

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Objects names what the relay uses in Postgres. Its methods write the names into subjects, statements and remedies.
type Objects struct {
	Slot        string
	Publication string
	Tables      []identifier.Table // may be empty where only logical messages are read
	Columns     Columns

	// Checkpoint is the table that stores how far the slot is confirmed; none where it has no name.
	Checkpoint identifier.Table

	Failover   bool // 17+: the slot has failover set, so standbys keep a copy of it
	HotStandby bool // 16+: the slot is on a hot standby
}

// Columns names the columns of an event: the columns that the SQL here uses, and all that records are built from.
type Columns struct {
	ID, AggregateType, AggregateID string
	Timestamp                      string // empty: not mapped

	Needed []NeededColumn
}

// NeededColumn is a column that records are built from, as router.Need describes it.
type NeededColumn struct {
	Name string
	Key  string // the setting that names it
	Role string // id, aggregate_type, aggregate_id, type, payload, headers or timestamp; empty: none of these

	Required bool // without it every row is delayed
	Usual    bool // where it is not required: that a table lacks it is worth a warning
}

// SlotSubject is the slot as the object of errors and findings.
func (o Objects) SlotSubject() string { return fmt.Sprintf("slot %q", o.Slot) }

// PublicationSubject is the publication as the object of errors and findings.
func (o Objects) PublicationSubject() string { return fmt.Sprintf("publication %q", o.Publication) }

// PublicationDDL publishes inserts only: with updates and deletes in it, pruning the outbox would send every row again.
func (o Objects) PublicationDDL(viaRoot bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE PUBLICATION %s", identifier.Quote(o.Publication))
	for i, t := range o.Tables {
		if i == 0 {
			b.WriteString(" FOR TABLE ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(t.SQL())
	}
	b.WriteString(" WITH (publish = 'insert'")
	if viaRoot {
		b.WriteString(", publish_via_partition_root = true")
	}
	b.WriteString(");")
	return b.String()
}

// SlotDDL creates the slot on the connected server.
func (o Objects) SlotDDL() string {
	failover := ""
	if o.Failover {
		failover = ", failover => true"
	}
	return fmt.Sprintf("SELECT pg_create_logical_replication_slot(%s, 'pgoutput'%s);", identifier.QuoteLiteral(o.Slot),
		failover)
}

// DropSlotSQL drops the slot on the connected server.
func (o Objects) DropSlotSQL() string {
	return fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(o.Slot))
}

// LogSnapshotSQL makes a primary log its running transactions, which creating a slot on a hot standby waits for.
const LogSnapshotSQL = "SELECT pg_log_standby_snapshot();"

// OnHotStandby reports whether the slot is, or is to be, on a hot standby. A server that was not asked has no version.
func (o Objects) OnHotStandby(server ServerFacts) bool {
	return o.HotStandby && (server.Version == 0 || server.InRecovery)
}

// CreateSlotSQL is the SQL that creates the slot, for pasting.
func (o Objects) CreateSlotSQL(server ServerFacts) string {
	if !o.OnHotStandby(server) {
		return o.SlotDDL()
	}
	return fmt.Sprintf("-- on the standby; it waits until the second is run on %s, after all transactions that are "+
		"open there:\n%s\n%s",
		server.PrimaryName(), o.SlotDDL(), LogSnapshotSQL)
}

// RenewSlotSQL creates the slot again. The checkpoint was the old slot's, so its row is deleted.
func (o Objects) RenewSlotSQL(server ServerFacts) string {
	if o.Checkpoint.Name == "" {
		return o.CreateSlotSQL(server)
	}
	return o.CreateSlotSQL(server) + "\n" + o.ForgetSQL()
}

// RepublishSQL says how to publish rows again. It is a comment, because an operator has to fill in the time. Deleting
// and inserting keeps the ids, and of the two only the insert is published. created_at is set when a transaction
// begins, and rows are published in the order of commits, so the two may differ by as long as transactions last.
// OVERRIDING SYSTEM VALUE keeps the values of an identity column (Postgres docs, INSERT), and does nothing where there
// is none.
func (o Objects) RepublishSQL(tables ...identifier.Table) string {
	lines := []string{
		"-- then start the connector again; `cdc-outbox repair` finds in the table what Kafka does not have, and " +
			"publishes it.",
		"-- By hand, publish again from the table what was committed since the last published event. Go back " +
			"generously:",
		"-- created_at is the transaction's start; consumers tell a repeat by its id.",
	}
	when := o.Columns.Timestamp
	if when == "" {
		when = "created_at"
	}
	for _, t := range tables {
		lines = append(lines, fmt.Sprintf("-- WITH missed AS (DELETE FROM %[1]s WHERE %[2]s >= '…' RETURNING *) "+
			"INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT * FROM missed;", t.SQL(), identifier.Quote(when)))
	}
	return strings.Join(lines, "\n")
}
