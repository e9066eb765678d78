package config

import (
	"regexp"
	"slices"
	"strings"
)

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// Postgres is where the rows come from.
type Postgres struct {
	DSN         Secret   `key:"dsn" mask:"dsn" example:"postgres://cdc_outbox@db.internal:5432/shop?sslmode=verify-full" doc:"Connection string, a URL or keyword=value pairs, several hosts too. Empty: the PG* environment variables (PGHOST, PGUSER, PGPASSWORD, PGSERVICE, …). The user needs the REPLICATION attribute."`
	Slot        string   `key:"slot" default:"cdc_outbox" doc:"Replication slot, one per connector: lower-case letters, digits and underscores, 63 at most."`
	Publication string   `key:"publication" default:"cdc_outbox" doc:"Publication that holds the outbox tables."`
	Tables      []string `key:"tables" default:"public.outbox" example:"public.outbox,billing.outbox" doc:"Outbox tables as schema.table; a partitioned table by its root. off for none, where there are postgres.messages."`
	Messages    []string `key:"messages" example:"outbox" doc:"Prefixes of pg_logical_emit_message(true, prefix, content) whose messages are events, without a table; docs/messages.md describes the content."`
	Checkpoint  string   `key:"checkpoint" default:"public.cdc_outbox_slots" doc:"Table that remembers how far the slot is confirmed, so that a slot that was dropped and made anew, moved by hand or missing after a failover is refused instead of leaving a gap that nobody notices. setup creates it. A table that is not there is done without; off for none."`
	OnChange    string   `key:"on_change" default:"warn" oneof:"warn|ignore|halt" doc:"What to do at an UPDATE or TRUNCATE of the outbox, where the publication sends them: they are no events. warn counts them and says so in the log, ignore only counts, halt stands still in front of them. A DELETE is counted and never halts: that is how an outbox is emptied. Debezium's table.op.invalid.behavior."`
	Setup       string   `key:"setup" default:"auto" oneof:"auto|never" doc:"auto creates publication and slot when both are absent (a publication whose slot is gone is a lost slot and needs an operator); never only checks."`
	Snapshot    string   `key:"snapshot" default:"never" oneof:"never|initial" doc:"initial publishes the rows that are in the tables when the slot is created, once and before all others; docs/snapshot.md. A slot that exists already is not affected."`
	HotStandby  bool     `key:"hot_standby" default:"false" doc:"postgres.dsn leads to a hot standby, and the slot is there. PostgreSQL 16 and newer; docs/operations.md says what that takes."`
	PrimaryDSN  Secret   `key:"primary_dsn" mask:"dsn" example:"postgres://cdc_outbox@db-1.internal,db-2.internal:5432/shop?target_session_attrs=read-write" doc:"Connection string of the primary, where postgres.hot_standby is set: what setup makes besides the slot is made there, and postgres.checkpoint written. It carries no events."`
	Failover    bool     `key:"failover" default:"false" doc:"Create the slot with failover, so that it lives on after a switch to a standby. PostgreSQL 17 and newer."`
}

// OutboxTables returns postgres.tables, none where the key is off.
func (p *Postgres) OutboxTables() []string {
	return slices.DeleteFunc(slices.Clone(p.Tables), func(table string) bool { return table == off })
}

// CheckpointTable returns postgres.checkpoint, and nothing where the key is off.
func (p *Postgres) CheckpointTable() string {
	if p.Checkpoint == off {
		return ""
	}
	return p.Checkpoint
}

func (l *loader) postgres(p *Postgres) {
	if !slotName.MatchString(p.Slot) {
		l.fail("postgres.slot", "1 to 63 of a-z, 0-9 and _", "is not a name for a replication slot")
	}
	if p.Publication == "" || len(p.Publication) > 63 || strings.ContainsRune(p.Publication, 0) {
		l.fail("postgres.publication", "1 to 63 bytes", "is not a name for a publication")
	}
	tables := len(p.OutboxTables()) > 0
	if !tables && len(p.Messages) == 0 {
		l.fail("postgres.tables", "schema.table, one or more", "names no table, and postgres.messages no prefix")
	}
	if p.Snapshot == "initial" && (!tables || len(p.Slot) > 43) {
		l.fail("postgres.snapshot", "", "needs postgres.tables, and a slot whose name has 43 bytes at most")
	}
	l.hotStandby(p)
	for i, prefix := range p.Messages {
		if strings.ContainsRune(prefix, 0) || slices.Contains(p.Messages[:i], prefix) {
			l.fail("postgres.messages", "", "names %q twice, or no prefix that Postgres takes", prefix)
		}
	}
	for i, t := range p.Tables {
		if slices.Contains(p.Tables[:i], t) {
			l.fail("postgres.tables", "", "names %s twice", t)
		}
	}
}

// hotStandby refuses what cannot be had from a server that nothing can be written to, rather than doing without it unasked.
func (l *loader) hotStandby(p *Postgres) {
	if !p.HotStandby {
		if p.PrimaryDSN.IsSet() {
			l.fail("postgres.primary_dsn", "", "is set while postgres.hot_standby is false; events are read from where postgres.dsn leads")
		}
		return
	}
	if !p.PrimaryDSN.IsSet() && p.CheckpointTable() != "" {
		l.fail("postgres.primary_dsn", "", "is not set, and a standby cannot remember how far the slot is confirmed; set it, or postgres.checkpoint to off, which leaves a slot that was made anew or moved by hand unnoticed")
	}
	if p.Failover {
		l.fail("postgres.failover", "", "is set together with postgres.hot_standby; Postgres does not synchronise slots that were made on a standby")
	}
	if p.Snapshot == "initial" {
		l.fail("postgres.snapshot", "", "is initial together with postgres.hot_standby; the list of rows that it takes can only be written on a primary")
	}
}
