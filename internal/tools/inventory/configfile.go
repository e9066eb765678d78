package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// defaultSlot and defaultPublication are the defaults of their keys.
const defaultSlot, defaultPublication = "cdc_outbox", "cdc_outbox"

// File returns a configuration with comments.
func (s *Survey) File(w Wishes) (string, error) {
	all := s.candidates()
	chosen, err := s.choose(w.Table, all)
	switch {
	case err != nil:
	case chosen != nil:
		err = chosen.decideKey(w)
	case w.Key != "":
		err = keyError("no table looks like an outbox", "Name the table with --table, too.")
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# yaml-language-server: $schema=https://raw.githubusercontent.com/cdc-outbox/cdc-outbox/main/docs/" +
		"configuration.schema.json")
	line("# Written by cdc-outbox config init, from what the database %s has.", printableName(s.Database))
	line("# Every other key has its default; docs/configuration.md has them all.")
	line("# Next: cdc-outbox setup --dry-run, check, run.")
	line("postgres:")
	line("  # The connection string is a secret. Set CDC_OUTBOX_POSTGRES_DSN, or name a file that holds it:")
	line("  # dsn: \"@/etc/cdc-outbox/dsn\"")
	s.server(line)
	if chosen == nil {
		line("  # No table looks like an outbox. `cdc-outbox setup --table` creates this one:")
		line("  tables: [public.outbox]")
	} else {
		line("  tables: [%s]", strconv.Quote(chosen.String()))
		for _, other := range all {
			if other.Table.Table != chosen.Table.Table {
				line("  # %s looks like an outbox, too", printableName(other.String()))
			}
		}
	}
	s.slotLines(line)
	if chosen != nil && chosen.writer != nil {
		line("# This looks like the outbox table of %s. docs/writers.md explains what follows; its topics and",
			chosen.writer.Name)
		line("# members of JSON are examples where the library leaves them to you.")
		b.WriteString(chosen.writer.Router)
	} else {
		router(line, chosen)
		if chosen != nil {
			undecided(line, chosen)
		}
	}
	line("kafka:")
	line("  brokers: [127.0.0.1:9092]   # the database does not know them: write yours")
	return b.String(), nil
}

// printableName is a name of the database within a comment.
func printableName(name string) string { return fault.Printable(name) }

// choose returns nil if no table was named and none looks like an outbox.
func (s *Survey) choose(name string, all []match) (*match, error) {
	if name == "" {
		if len(all) == 0 {
			return nil, nil
		}
		return &all[0], nil
	}
	wanted, err := identifier.ParseTable(name)
	if err != nil {
		return nil, fault.Usage("--table: "+err.Error(), "Write schema.table.")
	}
	at := slices.IndexFunc(s.Tables, func(t Table) bool { return t.Table == wanted })
	if at < 0 {
		return nil, fault.Usage("--table: the database has no table "+wanted.String(),
			"cdc-outbox config init without --table finds tables that look like an outbox")
	}
	m := matchOf(s.Tables[at])
	return &m, nil
}

// server names the changes that are needed before the log can be read.
func (s *Survey) server(line func(string, ...any)) {
	if !postgres.Decodes(s.WALLevel, s.Version) {
		line("  # wal_level is %s, and must be logical, which needs a restart of the server:", s.WALLevel)
		line("  #   ALTER SYSTEM SET wal_level = logical;")
	}
	if !s.Replication {
		line("  # The role of this connection has no REPLICATION, so it can neither create a slot nor stream.")
		line("  # `cdc-outbox setup --role cdc_outbox` creates a role that can.")
	}
}

func (s *Survey) slotLines(line func(string, ...any)) {
	line("  slot: %s", defaultSlot)
	for _, x := range s.Slots {
		state := "no process reads it"
		if x.Active {
			state = "a process reads it: take another name, unless that is a cdc-outbox"
		}
		line("  # exists: %s (%s), %s", printableName(x.Name), printableName(x.Plugin), state)
	}
	line("  publication: %s", defaultPublication)
	for _, p := range s.Publications {
		tables := "for some tables"
		if p.AllTables {
			tables = "for all tables"
		}
		line("  # exists: %s, %s", printableName(p.Name), tables)
	}
}

// router writes the columns that are not named as the default expects, and a topic that the table can name.
func router(line func(string, ...any), m *match) {
	line("router:")
	if m == nil {
		line("  topic: \"${aggregate_type}.events\"")
		return
	}
	if m.debezium() {
		line("  # These are the columns of Debezium's outbox event router. To have its records,")
		line("  # too, see preset: debezium and cdc-outbox migrate debezium.")
	}
	if m.member != "" {
		line("  # The record's key is a member of a JSON column.")
		line("  json_columns:")
		line("    %s: %s", strconv.Quote(m.columns["aggregate_id"]), strconv.Quote(m.member))
	}
	columns(line, m)
	switch column := m.columns[writers.Topic]; {
	case column != "":
		line("  # The column has the topic's whole name. cdc-outbox preview prints the topics of the rows.")
		line("  topic: %s", strconv.Quote("${column:"+column+"}"))
	case m.columns["aggregate_type"] != "":
		line("  topic: \"${aggregate_type}.events\"")
		if writers.Polymorphic(m.columns["aggregate_type"]) {
			line("  # Kafka does not take every name of a class: Billing::Invoice gives Billing.Invoice.")
			line("  topic_regex: '[^a-zA-Z0-9._-]+'")
			line("  topic_replacement: \".\"")
		}
	default:
		line("  # No column with a topic was recognized, so all rows go to one.")
		line("  topic: \"${table}.events\"")
	}
}

// absent is the comment on a role that no column has, and that a table need not have.
var absent = map[string]string{
	"aggregate_type": "no column was recognized",
	"type":           "no column was recognized: records have no header with the event's type",
	"headers":        "no column of JSON was recognized",
	"timestamp":      "no column was recognized: records have the time of the commit",
}

func columns(line func(string, ...any), m *match) {
	head := false
	say := func(format string, args ...any) {
		if !head {
			line("  columns:")
			head = true
		}
		line("    "+format, args...)
	}
	for _, key := range []string{"id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "timestamp"} {
		switch found := m.columns[key]; {
		case found == writers.Standard(key):
		case found != "":
			say("%s: %s", key, strconv.Quote(found))
		case absent[key] != "":
			say("%s: \"\"   # %s", key, absent[key])
		}
	}
}

// undecided lists what only a person can say: no command loads the file before.
func undecided(line func(string, ...any), m *match) {
	head := false
	for _, role := range []struct{ key, text string }{
		{"id", "Name the column with the event's id, which no other row has."},
		{"aggregate_id", keyWanted},
		{"payload", "Name the column with the event."},
	} {
		if m.columns[role.key] != "" {
			continue
		}
		if !head {
			line("# Decide these and delete the lines; cdc-outbox refuses the file while one is here.")
			line("undecided:")
			head = true
		}
		text := role.text + m.choices(role.key)
		if role.key == "aggregate_id" {
			text += " cdc-outbox config init --force --table '" + m.String() + "' --key COLUMN writes it."
		}
		line("  - router.columns.%s: %s", role.key, strconv.Quote(printableName(text)))
	}
}
