package postgres

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Objects names the objects of the relay in Postgres. Its methods write the names into subjects, statements and
// remedies.
type Objects struct {
	Slot        string
	Publication string
	Tables      []identifier.Table // may be empty where only logical messages are read
	Columns     Columns

	// Checkpoint is the table that stores how far the slot is confirmed; none where it has no name.
	Checkpoint identifier.Table

	// Decisions is the table of operators' decisions; none where it has no name.
	Decisions identifier.Table

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

// Gaps is the table of the gaps in the slots' accounts, beside the checkpoint; none where there is no checkpoint.
func (o Objects) Gaps() identifier.Table {
	if o.Checkpoint.Name == "" {
		return identifier.Table{}
	}
	return identifier.Table{Schema: o.Checkpoint.Schema, Name: "cdc_outbox_gaps"}
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
	return fmt.Sprintf("SELECT pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput'%s);",
		identifier.QuoteLiteral(o.Slot),
		failover)
}

// DropSlotSQL drops the slot on the connected server.
func (o Objects) DropSlotSQL() string {
	return fmt.Sprintf("SELECT pg_catalog.pg_drop_replication_slot(%s);", identifier.QuoteLiteral(o.Slot))
}

// LogSnapshotSQL makes a primary log its running transactions, which creating a slot on a hot standby waits for.
const LogSnapshotSQL = "SELECT pg_log_standby_snapshot();"

// OnHotStandby reports whether the slot is, or is to be, on a hot standby. A server that was not asked has no version.
func (o Objects) OnHotStandby(server ServerFacts) bool {
	return o.HotStandby && (server.Version == 0 || server.InRecovery)
}

// CreateSlot creates the slot.
func (o Objects) CreateSlot(server ServerFacts) fault.Remedy {
	if !o.OnHotStandby(server) {
		return fault.Do("Create the slot.", o.SlotDDL())
	}
	return fault.Do(fmt.Sprintf("Create the slot on the standby: that waits until the primary logs its running "+
		"transactions, by "+
		"the second command on %s, after all transactions that are open there.", server.PrimaryName()),
		o.SlotDDL(), LogSnapshotSQL)
}

// ReplaceLost is what follows on the loss of a slot.
func ReplaceLost() fault.Remedy {
	return fault.Do("Replace the slot, start the connector, and publish from the table what the slot missed.",
		"cdc-outbox slot recreate --yes-lose-events", "cdc-outbox repair")
}

// Republish publishes rows again that came through no slot.
func Republish() fault.Remedy {
	return fault.Do("Then start the connector again, and publish again from the table what Kafka does not have.",
		"cdc-outbox repair")
}
