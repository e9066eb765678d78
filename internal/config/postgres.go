package config

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

var slotName = regexp.MustCompile(`^[a-z0-9_]+$`)

// Postgres names the server, the slot, the publication and the tables.
type Postgres struct {
	// Connection string: a URL or `keyword=value` pairs, also with several hosts. The user needs the `REPLICATION`
	// attribute. Empty: the `PG*` environment variables (`PGHOST`, `PGUSER`, `PGPASSWORD`, `PGSERVICE`, …) apply.
	DSN Secret `key:"dsn" mask:"dsn" example:"postgres://cdc_outbox@db.internal:5432/shop?sslmode=verify-full"`

	// Command that prints the password of a connection, for servers whose passwords are tokens that end after minutes
	// (RDS IAM, Entra, Cloud SQL): a program and its arguments, without a shell. It is run for each connection that is
	// opened, with `PGHOST`, `PGPORT`, `PGUSER` and `PGDATABASE` of that connection. The line that it prints is the
	// password; what it writes to stderr is in the error if it fails. docs/authentication.md has examples.
	PasswordCommand []string `key:"password_command" example:"/usr/local/bin/rds-token,--region,eu-central-1"`

	// File with the password, in place of the command. It is read again for each connection that is opened.
	PasswordFile string `key:"password_file" example:"/var/run/secrets/db-token"`

	// How long `postgres.password_command` may take.
	PasswordTimeout time.Duration `key:"password_timeout" default:"10s"`

	// Name of the replication slot: up to 63 lower-case letters, digits and underscores. Each connector needs a
	// slot of its own.
	Slot string `key:"slot" default:"cdc_outbox"`

	// Publication that contains the outbox tables.
	Publication string `key:"publication" default:"cdc_outbox"`

	// Outbox tables, as `schema.table`. As in SQL, a name with upper case, a blank or a hyphen is written in double
	// quotes, in YAML within single ones: `tables: ['public."OutboxMessage"']`. Name a partitioned table by its root.
	// `off` means no table, which requires `postgres.messages`.
	Tables []string `key:"tables" default:"public.outbox" example:"public.outbox,billing.outbox"`

	// Prefixes of `pg_logical_emit_message(true, prefix, content)` whose messages are events. They need no table;
	// docs/messages.md describes the content.
	Messages []string `key:"messages" example:"outbox"`

	// Table that stores the confirmed LSN of the slot. With it, the connector refuses a slot that was dropped and
	// re-created, moved by hand, or lost in a failover; without it, such a slot leaves a gap that no check finds.
	// With it, the connector also refuses a server that was put back to an older state, for example from a snapshot of
	// its disk; without it, a restore while the connector is down is not noticed with `delivery: at_least_once`.
	// `setup` creates the table. If the table does not exist, the check is skipped. `off` disables the check.
	// The table also keeps why a connector ended on an error; with `source: polling` it keeps nothing more than that.
	Checkpoint string `key:"checkpoint" default:"public.cdc_outbox_slots"`

	// Table in which operators' decisions about a running connector are written, by the commands `row pass`, `pause`
	// and `resume`, and read by the connector once a second. `setup` creates the table. If it does not exist, nothing
	// can be decided while the connector runs. `off` disables it.
	Decisions string `key:"decisions" default:"public.cdc_outbox_decisions"`

	// What an `UPDATE` or `TRUNCATE` of the outbox does, if the publication sends it. Neither is an event. `warn`
	// counts the change and logs it, `ignore` only counts it, `halt` stops in front of it. A `DELETE` is counted
	// and never halts, because deleting rows is how an outbox is emptied. Debezium: `table.op.invalid.behavior`.
	OnChange string `key:"on_change" default:"warn" oneof:"warn|ignore|halt"`

	// `auto` creates the publication and the slot when neither exists. A publication without its slot means that
	// the slot is lost, and needs an operator. `never` only checks.
	Setup string `key:"setup" default:"auto" oneof:"auto|never"`

	// `initial` publishes the rows that are in the tables when the slot is created, once and before all other
	// rows. See docs/snapshot.md. A slot that exists already is not affected.
	Snapshot string `key:"snapshot" default:"never" oneof:"never|initial"`

	// The slot is on a hot standby, and `postgres.dsn` leads to that server. This needs PostgreSQL 16 or newer;
	// docs/deploy.md describes the requirements.
	HotStandby bool `key:"hot_standby" default:"false"`

	// Connection string of the primary, for use with `postgres.hot_standby`. `setup` creates everything except the slot
	// on the primary, and the table of `postgres.checkpoint` is written there. No events are read on this connection.
	PrimaryDSN Secret `key:"primary_dsn" mask:"dsn" example:"host=db-1,db-2 target_session_attrs=read-write"`

	// Create the slot with `failover`, so that the slot is kept when a standby is promoted. This needs PostgreSQL
	// 17 or newer.
	Failover bool `key:"failover" default:"false"`

	// Servers that may be promoted, as `host` or `host:port`; with everything else as in `postgres.dsn`. `check` asks
	// each whether a failover to it would lose, repeat or stop the stream, and so does the connector each twelfth
	// `monitor.interval`, if this key or `postgres.failover` is set. Empty: the hosts of `postgres.dsn`, if it names
	// several.
	Standbys []string `key:"standbys" example:"db-2.internal,db-3.internal:5433"`

	// Physical standbys, by their `application_name` in `pg_stat_replication`, that must have flushed a transaction
	// before its events are published. Then a failover to one of them takes back nothing that Kafka has. The single
	// entry `synchronous_standby_names` means what that setting of the server says at the moment. Empty: events are
	// published when the primary alone has the transaction, and a failover to a standby that is behind leaves events in
	// Kafka whose rows no longer exist. A standby that is not connected stops publishing. The role needs
	// `pg_read_all_stats` (or `pg_monitor`). docs/deploy.md describes it.
	WaitForStandbys []string `key:"wait_for_standbys" example:"standby_1,standby_2"`

	// How many standbys of `postgres.wait_for_standbys` must have flushed a transaction. 0 means all of them.
	WaitForStandbysCount int `key:"wait_for_standbys_count" default:"0"`
}

// OutboxTables returns postgres.tables, or none if the key is off.
func (p *Postgres) OutboxTables() []string {
	return slices.DeleteFunc(slices.Clone(p.Tables), func(table string) bool { return table == off })
}

// CheckpointTable returns postgres.checkpoint, or nothing if the key is off.
func (p *Postgres) CheckpointTable() string {
	if p.Checkpoint == off {
		return ""
	}
	return p.Checkpoint
}

// DecisionsTable returns postgres.decisions, or nothing if the key is off.
func (p *Postgres) DecisionsTable() string {
	if p.Decisions == off {
		return ""
	}
	return p.Decisions
}

func (l *loader) postgres(p *Postgres) {
	if len(p.Slot) > 63 || !slotName.MatchString(p.Slot) {
		l.fail("postgres.slot", "1 to 63 of a-z, 0-9 and _", "is not a name for a replication slot")
	}
	if p.Publication == "" || len(p.Publication) > 63 || strings.ContainsRune(p.Publication, 0) {
		l.fail("postgres.publication", "1 to 63 bytes", "is not a name for a publication")
	}
	tables := len(p.OutboxTables()) > 0
	if !tables && len(p.Messages) == 0 {
		l.fail("postgres.tables", "schema.table, one or more", "names no table, and postgres.messages names no prefix")
	}
	if p.Snapshot == "initial" && (!tables || len(p.Slot) > 43) {
		l.fail("postgres.snapshot", "", "needs postgres.tables, and a slot whose name has at most 43 bytes")
	}
	l.password(p)
	l.hotStandby(p)
	l.waitForStandbys(p)
	for i, prefix := range p.Messages {
		if strings.ContainsRune(prefix, 0) || slices.Contains(p.Messages[:i], prefix) {
			l.fail("postgres.messages", "", "names %q twice, or Postgres does not take this prefix", prefix)
		}
	}
	for i, t := range p.Tables {
		if slices.Contains(p.Tables[:i], t) {
			l.fail("postgres.tables", "", "names %s twice", t)
		}
	}
}

// password refuses two sources of one password.
func (l *loader) password(p *Postgres) {
	const command, file = "postgres.password_command", "postgres.password_file"
	l.atLeast("postgres.password_timeout", int64(p.PasswordTimeout), int64(100*time.Millisecond),
		"a duration from 100ms")
	source := ""
	switch {
	case len(p.PasswordCommand) > 0 && p.PasswordFile != "":
		l.fail(file, "", "is set together with %s; a password comes from one of the two", command)
		return
	case len(p.PasswordCommand) > 0:
		source = command
		if p.PasswordCommand[0] == "" {
			l.fail(command, "a program and its arguments", "names no program")
		}
	case p.PasswordFile != "":
		source = file
	default:
		return
	}
	for key, secret := range map[string]Secret{"postgres.dsn": p.DSN, "postgres.primary_dsn": p.PrimaryDSN} {
		dsn, err := secret.Read()
		if shown := redactDSN(dsn); err == nil && strings.Contains(shown, masked) && shown != masked {
			l.fail(key, "", "holds a password, and so does %s; take the password out of the connection string", source)
		}
	}
}

// hotStandby refuses settings that do not work with a slot on a hot standby: nothing can be written there, and Postgres
// does not synchronize such slots.
func (l *loader) hotStandby(p *Postgres) {
	if !p.HotStandby {
		if p.PrimaryDSN.IsSet() {
			l.fail("postgres.primary_dsn", "",
				"is set while postgres.hot_standby is false; events are read from the server of postgres.dsn")
		}
		return
	}
	if !p.PrimaryDSN.IsSet() && p.CheckpointTable() != "" {
		l.fail("postgres.primary_dsn", "",
			"is not set, and a hot standby cannot store the checkpoint; set postgres.primary_dsn, or set "+
				"postgres.checkpoint to off and accept that a re-created or moved slot is not detected")
	}
	if p.Failover {
		l.fail("postgres.failover", "",
			"is set together with postgres.hot_standby; "+
				"Postgres does not synchronize slots that were created on a standby")
	}
	if p.Snapshot == "initial" {
		l.fail("postgres.snapshot", "",
			"is initial together with postgres.hot_standby; the list of rows can only be written on a primary")
	}
}

// asServer is the entry of postgres.wait_for_standbys that stands for a setting of the server.
const asServer = "synchronous_standby_names"

func (l *loader) waitForStandbys(p *Postgres) {
	const key, count = "postgres.wait_for_standbys", "postgres.wait_for_standbys_count"
	for i, name := range p.WaitForStandbys {
		same := func(other string) bool { return strings.EqualFold(other, name) } // as the server compares
		switch {
		case name == "" || name == "*" || strings.ContainsRune(name, 0):
			l.fail(key, "names of standbys", "names %q, which is not the application_name of one standby", name)
		case slices.ContainsFunc(p.WaitForStandbys[:i], same):
			l.fail(key, "", "names %q twice", name)
		case name == asServer && len(p.WaitForStandbys) > 1:
			l.fail(key, "", "names standbys together with %s, which must be the only entry", asServer)
		}
	}
	l.standbys(p)
	asked := p.WaitForStandbysCount
	switch {
	case asked < 0 || asked > len(p.WaitForStandbys):
		l.fail(count, "0 to the number of names in "+key, "is %d, and %s names %d", asked, key, len(p.WaitForStandbys))
	case asked > 0 && p.WaitForStandbys[0] == asServer:
		l.fail(count, "", "is set, but %s says how many", asServer)
	}
	if p.HotStandby && len(p.WaitForStandbys) > 0 {
		l.fail(key, "", "is set together with postgres.hot_standby; a standby does not know how far other standbys are")
	}
}

func (l *loader) standbys(p *Postgres) {
	const key = "postgres.standbys"
	for i, server := range p.Standbys {
		if slices.Contains(p.Standbys[:i], server) {
			l.fail(key, "", "names %s twice", quote(server))
		}
		host := server
		if h, port, err := net.SplitHostPort(server); err == nil && port != "" {
			l.address(key, server, false)
			host = h
		}
		if host == "" || strings.ContainsAny(host, "/@ ;,'=") || strings.HasSuffix(host, ":") {
			l.fail(key, "host or host:port", "%s is not a host", quote(server))
		}
	}
	if p.HotStandby && len(p.Standbys) > 0 {
		l.fail(key, "", "is set together with postgres.hot_standby; no slot moves to another server then")
	}
}
