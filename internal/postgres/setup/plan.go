package setup

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
)

// Step is one statement of a setup or teardown and the reason for it.
type Step struct {
	SQL string // complete, with its semicolon
	Why string // one sentence

	action stepAction
}

type stepAction uint8

const (
	stepPlain stepAction = iota
	stepTable
	stepPublication
	stepSlot
	stepSnapshotSlot
	stepKept // nothing is done: SQL is a comment, Why says what is kept or could be done
)

// Does reports whether the step changes anything. One that does not says what is left as it is.
func (s Step) Does() bool { return s.action != stepKept }

// pendingMark marks, as a comment on the publication, a setup that has not come to its slot yet. The two cannot be made
// in one transaction (pg_create_logical_replication_slot refuses one that has written), and creating the slot may wait
// long for other people's transactions: a process killed meanwhile leaves a publication without slot, which without the
// mark could not be distinguished from a slot that was lost. The comment is removed once the slot is there, before
// anything is streamed.
func pendingMark(cfg Config) string {
	return fmt.Sprintf("cdc-outbox: setup unfinished, slot %s not created yet", cfg.Slot)
}

func (st state) pending(cfg Config) bool {
	return st.Publication.Exists && st.Publication.Comment == pendingMark(cfg)
}

// planSetup lists what is missing. Nothing missing: no steps.
func planSetup(cfg Config, st state) []Step {
	steps := planSteps(cfg, st)
	if !cfg.OnHotStandby(st.Server.ServerFacts) {
		return steps
	}
	for i := range steps {
		if steps[i].action == stepSlot {
			steps[i].Why = "On the standby. " + steps[i].Why + "\nIt waits until the primary logs the transactions " +
				"that run, which an idle one does when asked: " + postgres.LogSnapshotSQL
		} else {
			steps[i].Why = "On the primary. " + steps[i].Why
		}
	}
	return steps
}

func planSteps(cfg Config, st state) []Step {
	var steps []Step
	partitioned := false
	for _, t := range st.Tables {
		partitioned = partitioned || t.Partitioned()
	}
	if cfg.TableDDL != "" && st.lacksTable() {
		steps = append(steps, planTables(cfg, st))
		partitioned = partitioned || ddlPartitions(cfg.TableDDL)
	}
	steps = append(steps, planGrants(cfg, st)...)
	steps = append(steps, planCheckpoint(cfg, st)...)
	steps = append(steps, planDecisions(cfg, st)...)
	steps = append(steps, planGaps(cfg, st)...)
	steps = append(steps, planSnapshot(cfg, st)...)
	if !st.Publication.Exists {
		steps = append(steps, Step{
			SQL: cfg.PublicationDDL(partitioned),
			Why: "Only inserts into the outbox are sent. It comes before the slot: what a slot holds from before " +
				"its publication existed can never be read.",
			action: stepPublication,
		})
	}
	if !st.Slot.Exists && cfg.Snapshot {
		steps = append(steps, Step{
			SQL: "-- `cdc-outbox setup` and `run` make the slot themselves: SQL alone cannot tell which rows were " +
				"there at that moment.",
			Why: "From here on Postgres keeps all WAL until the connector has confirmed it. What is in the outbox at " +
				"that moment is listed in " +
				snapshot.List(cfg.Objects).String() + " and published first. Creating the slot waits for every " +
				"transaction open at that moment.",
			action: stepSnapshotSlot,
		})
		return steps
	}
	if !st.Slot.Exists {
		steps = append(steps, Step{
			SQL: cfg.SlotDDL(),
			Why: "From here on Postgres keeps all WAL until the connector has confirmed it. Creating it waits for " +
				"every transaction open at that moment.",
			action: stepSlot,
		})
	}
	return steps
}

// planTables creates the missing tables. Where the publication is there already they enter it in the same transaction:
// what is inserted between the two is accepted and never sent.
func planTables(cfg Config, st state) Step {
	s := Step{
		SQL:    withSemicolon(cfg.TableDDL),
		Why:    "The outbox table: the service inserts its events there, in the transaction of its change.",
		action: stepTable,
	}
	if add := publishMissing(cfg, st, cfg.TableDDL); add != "" {
		s.SQL = "BEGIN;\n" + s.SQL + "\n" + add + "\nCOMMIT;"
		s.Why += "\nIn one transaction with its entry into the publication: rows inserted in between would " +
			"never be sent."
	}
	return s
}

// publishMissing adds the tables that do not exist yet to a publication that does; empty where nothing has to be added.
func publishMissing(cfg Config, st state, ddl string) string {
	p, pub := st.Publication, identifier.Quote(cfg.Publication)
	if !p.Exists || p.AllTables || !st.lacksTable() {
		return ""
	}
	var names []string
	for _, t := range st.Tables {
		if !t.Exists {
			names = append(names, t.Table.SQL())
		}
	}
	sql := fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s;", pub, strings.Join(names, ", "))
	if ddlPartitions(ddl) && !p.ViaRoot {
		sql += fmt.Sprintf("\nALTER PUBLICATION %s SET (publish_via_partition_root = true);", pub)
	}
	return sql
}

func (st state) lacksTable() bool {
	for _, t := range st.Tables {
		if !t.Exists && t.Meant == nil { // beside one that was meant no second is made
			return true
		}
	}
	return false
}

// planGrants gives the role what the connector needs: the replication attribute for the slot, and read access to the
// table for checks and for publishing again from it. Streaming itself asks for no table privilege.
func planGrants(cfg Config, st state) []Step {
	r := st.Role
	if cfg.Role == "" {
		return nil
	}
	role := identifier.Quote(cfg.Role)
	var steps []Step
	add := func(why, format string, args ...any) {
		steps = append(steps, Step{SQL: fmt.Sprintf(format, args...) + ";", Why: why})
	}
	replicates := r.MayReplicate
	switch {
	case !r.Exists && st.Server.Service.GrantsReplication():
		add(`The connector's role; give it a password in psql with \password.`, "CREATE ROLE %s LOGIN", role)
	case !r.Exists:
		add(`The connector's role; give it a password in psql with \password.`, "CREATE ROLE %s LOGIN REPLICATION",
			role)
		replicates = true
	case !r.MayLogIn:
		add("The connector logs in with it.", "ALTER ROLE %s LOGIN", role)
	}
	if !replicates && st.Server.Service.GrantsReplication() {
		add("Reading a slot takes this membership on Amazon RDS and Aurora.", "GRANT rds_replication TO %s", role)
	} else if !replicates {
		add("Reading a slot takes this attribute.", "ALTER ROLE %s REPLICATION", role)
	}
	if r.Exists && !r.MayConnect {
		add("The connector connects to the outbox's database.", "GRANT CONNECT ON DATABASE %s TO %s",
			identifier.Quote(st.Server.Database), role)
	}
	if cfg.Heals && !r.MayList {
		add("To heal a lost slot takes a table (on_gap: heal).", "GRANT CREATE ON SCHEMA %s TO %s",
			identifier.Quote(cfg.Tables[0].Schema), role)
	}
	schemas := map[string]bool{}
	for _, t := range cfg.Tables {
		if !schemas[t.Schema] && !r.Using[t.Schema] {
			add("Without it nothing in the schema can be read.", "GRANT USAGE ON SCHEMA %s TO %s",
				identifier.Quote(t.Schema), role)
		}
		schemas[t.Schema] = true
		if !r.Selecting[t] {
			add("For checks and for publishing again from the table; nothing is ever "+
				"written to it.", "GRANT SELECT ON TABLE %s TO %s", t.SQL(), role)
		}
	}
	return steps
}

var partitionBy = regexp.MustCompile(`(?i)\bPARTITION\s+BY\s+(RANGE|LIST|HASH)\b`)

// ddlPartitions guesses whether the DDL makes a partitioned table, for a plan printed before the table exists; after
// the table is there the catalog answers.
func ddlPartitions(ddl string) bool { return partitionBy.MatchString(ddl) }

func withSemicolon(sql string) string {
	sql = strings.TrimSpace(sql)
	if strings.HasSuffix(sql, ";") {
		return sql
	}
	return sql + ";"
}

// Script is the plan for a database in which nothing exists yet, made without a connection.
func Script(cfg Config) []Step {
	var st state
	for _, t := range cfg.Tables {
		st.Tables = append(st.Tables, postgres.OutboxTable{Table: t})
	}
	return planSetup(cfg, st)
}

// stepCommands lists the statements for pasting.
func stepCommands(steps []Step) []string {
	lines := make([]string, 0, len(steps))
	for _, s := range steps {
		lines = append(lines, s.SQL)
	}
	return lines
}
