package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// The checks are pure: a state in, findings out. Preflight prints them, Ensure stops at the first that fails, so the
// two never disagree.

// checkServer looks at what no object of ours can change.
func checkServer(cfg Config, st state) []preflight.Finding {
	s := st.Server
	var out []preflight.Finding
	if s.Version < 140000 {
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Subject: "server version",
			Found:  "PostgreSQL " + s.VersionText + " is older than 14.",
			Why:    "The versions before 14 are not tested and no longer maintained.",
			Remedy: "Upgrade the server to PostgreSQL 14 or later.",
		})
	} else {
		out = append(out, preflight.Fine("server version", "PostgreSQL "+s.VersionText+"."))
	}
	if s.Service != cloud.Plain {
		f := preflight.Fine("service", "The server is "+s.Service.Name()+": "+s.Service.Page()+".")
		f.Code = codeService
		out = append(out, f)
	}
	if !postgres.Decodes(s.WALLevel, s.Version) {
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Code: codeWALLevel, Subject: "wal_level",
			Found: fmt.Sprintf("wal_level is %s.", s.WALLevel), Why: "Without logical the WAL holds too little to " +
				"read rows from it; rows written before the change can never be read.",
		}.With(s.Service.With(s.Service.LogicalDecoding())))
	} else {
		out = append(out, preflight.Fine("wal_level", enoughWAL(s)))
	}
	if !s.MayReplicate {
		out = append(out, mayNotReplicate(s))
	} else {
		out = append(out, preflight.Fine(fmt.Sprintf("role %q", s.User), "The role may replicate."))
	}
	if s.Encoding != "UTF8" {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: "server encoding",
			Found: fmt.Sprintf("The database is stored in %s.", s.Encoding),
			Why: "Postgres converts every value to UTF-8 for the stream; a character without a counterpart ends " +
				"decoding at its row. SQL_ASCII is not converted, and a value in it that is not valid UTF-8 ends " +
				"decoding in the same way.",
			Remedy: fmt.Sprintf("Keep the outbox in a database made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE "+
				"template0; %s cannot be changed in place.", identifier.Quote(s.Database)),
		})
	}
	if cfg.Failover && s.Version < 170000 {
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Subject: "failover slot",
			Found: "PostgreSQL " + s.VersionText + " has no failover slots.", Why: "They exist from 17 on.",
			Remedy: "Set postgres.failover to false, or upgrade the server.",
		})
	}
	return out
}

// enoughWAL says that the level suffices.
func enoughWAL(s postgres.Server) string {
	if s.WALLevel == "logical" {
		return "wal_level is logical."
	}
	return fmt.Sprintf("wal_level is %s; the first slot for logical decoding raises it.", s.WALLevel)
}

func mayNotReplicate(s postgres.Server) preflight.Finding {
	return preflight.Finding{
		Level: preflight.Fail, Code: codeRole, Subject: fmt.Sprintf("role %q", s.User),
		Found: "The role has no right to replicate.", Why: "Postgres lets only such roles create and read slots.",
	}.With(s.Service.With(s.Service.Replication(s.User, identifier.Quote(s.User))))
}

// checkTables looks at each outbox table and at the columns of an event.
func checkTables(cfg Config, st state) []preflight.Finding {
	var out []preflight.Finding
	for _, t := range st.Tables {
		subject := "table " + t.Table.String()
		switch {
		case !t.Exists:
			out = append(out, tableMissing(cfg, st, t))
			continue
		case t.Kind != "r" && t.Kind != "p":
			out = append(out, preflight.Finding{
				Level: preflight.Fail, Subject: subject, Found: "It is " + relationKind(t.Kind) + ", not a table.",
				Why:    "Only tables write the WAL that events are read from.",
				Remedy: "Name the table below it in postgres.tables.",
			})
			continue
		}
		bad := append(checkLogged(t), checkColumns(cfg.Columns, t)...)
		bad = append(bad, checkGenerated(cfg, st, t)...)
		if len(bad) == 0 {
			bad = append(bad, preflight.Fine(subject, "It exists and has the mapped columns."))
		}
		out = append(out, bad...)
		if t.Filtered {
			out = append(out, checkRowSecurity(cfg, st, t))
		}
		if f := postgres.CheckUniqueID(t, cfg.Columns.ID); f != nil {
			out = append(out, *f)
		}
		if user := identifier.Quote(st.Server.User); !t.Selectable {
			out = append(out, preflight.Finding{
				Level: preflight.Warn, Subject: subject, Found: fmt.Sprintf("Role %q may not read it.", st.Server.User),
				Why:    "Streaming works without, but nothing can be published again from the table.",
				Remedy: "Let the role read it.",
				Commands: []string{
					fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", identifier.Quote(t.Table.Schema), user),
					fmt.Sprintf("GRANT SELECT ON TABLE %s TO %s;", t.Table.SQL(), user),
				},
			})
		}
	}
	return out
}

// checkMissing finds the tables that do not exist.
func checkMissing(cfg Config, st state) []preflight.Finding {
	var out []preflight.Finding
	for _, t := range st.Tables {
		if !t.Exists {
			out = append(out, tableMissing(cfg, st, t))
		}
	}
	return out
}

func tableMissing(cfg Config, st state, t postgres.OutboxTable) preflight.Finding {
	if t.Meant != nil {
		return preflight.Finding{
			Level: preflight.Fail, Subject: "table " + t.Table.String(),
			Found: fmt.Sprintf("There is no such table in database %q, but there is %s.", st.Server.Database, t.Meant),
			Why:   "Events are read from it. Names without double quotes are folded to lower case, as in SQL.",
		}.With(fault.Do("Write the name with its quotes in postgres.tables.",
			"postgres:\n  tables: ['"+t.Meant.String()+"']"))
	}
	return preflight.Finding{
		Level: preflight.Fail, Subject: "table " + t.Table.String(),
		Found: fmt.Sprintf("There is no such table in database %q.", st.Server.Database),
		Why:   "Events are read from it.",
	}.With(missingTableRemedy(cfg, st))
}

// missingTableRemedy never lets a table be created beside a publication that does not hold it: until the next check,
// its rows would be accepted and never sent.
func missingTableRemedy(cfg Config, st state) fault.Remedy {
	const (
		instead = "Or correct postgres.tables or the database in postgres.dsn (unquoted names are folded to lower " +
			"case)."
		once = "Do it in one transaction: rows inserted in between are never sent. "
	)
	ddl := cfg.TableDDL
	if ddl == "" {
		ddl = cfg.TableHint
	}
	add := publishMissing(cfg, st, ddl)
	const create = "Create it; `cdc-outbox setup --table` does this. "
	switch {
	case ddl == "" && add == "":
		return fault.Do("Create it. "+instead, "cdc-outbox setup --table")
	case add == "":
		return fault.Do(create+instead, withSemicolon(ddl))
	case ddl == "":
		return fault.Do("Create it and add it to the publication. "+once+
			"Put its CREATE TABLE after BEGIN. "+instead, "BEGIN;", add, "COMMIT;")
	}
	return fault.Do(create+once+instead, strings.Join([]string{"BEGIN;", withSemicolon(ddl), add, "COMMIT;"}, "\n"))
}

func relationKind(kind string) string {
	switch kind {
	case "v":
		return "a view"
	case "m":
		return "a materialized view"
	case "f":
		return "a foreign table"
	case "S":
		return "a sequence"
	}
	return "a relation of kind " + kind
}

// checkColumns looks for each needed column, and whether its type can carry what is read from it.
func checkColumns(m postgres.Columns, t postgres.OutboxTable) []preflight.Finding {
	subject := "table " + t.Table.String()
	var out []preflight.Finding
	for _, want := range m.Needed {
		c, ok := t.Column(want.Name)
		if ok {
			out = append(out, checkColumnType(subject, want, c)...)
			out = append(out, checkNullKey(t, want, c)...)
			continue
		}
		f := preflight.Finding{
			Level: preflight.Fail, Subject: subject,
			Found:  fmt.Sprintf("It has no column %s.", identifier.Quote(want.Name)),
			Why:    fmt.Sprintf("%s reads it; every row would be delayed.", want.Key),
			Remedy: columnRemedy(want, t),
		}
		if w := writers.Of(t.Table.Name, t.ColumnNames()); w != nil {
			f.Remedy = "This looks like the outbox table of " + w.Name + ". Write the configuration for it, or " +
				"compare docs/writers.md."
			f.Commands = []string{"cdc-outbox config init --table '" + t.Table.String() + "'"}
		}
		switch {
		case want.Required:
		case want.Usual:
			f.Level = preflight.Warn
			f.Why = fmt.Sprintf("%s reads it; records go out without.", want.Key)
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// columnRemedy names the columns whose types fit, and the setting for a table that has none.
func columnRemedy(want postgres.NeededColumn, t postgres.OutboxTable) string {
	var names []string
	for _, c := range t.Columns {
		if writers.Suits(want.Role, c.Type) {
			names = append(names, c.Name)
		}
	}
	remedy := fmt.Sprintf("Set %s to one of: %s.", want.Key, strings.Join(names, ", "))
	if len(names) == 0 {
		remedy = "The table has no column of a type that suits " + want.Key + "."
	}
	switch want.Role {
	case "aggregate_type", "type", "headers", "timestamp":
		if !strings.HasPrefix(want.Key, "router.debezium.") {
			remedy += ` Set it to "" if the table has none.`
		}
	case "aggregate_id":
		remedy += " If the events need no order, name the column of the id."
	}
	return remedy
}

// checkNullKey warns before the first row without a key comes: no router but Debezium's makes a record of it.
func checkNullKey(t postgres.OutboxTable, want postgres.NeededColumn, c postgres.TableColumn) []preflight.Finding {
	if want.Role != "aggregate_id" || c.NotNull || strings.HasPrefix(want.Key, "router.debezium.") {
		return nil
	}
	column := identifier.Quote(c.Name)
	return []preflight.Finding{{
		Level: preflight.Warn, Subject: "table " + t.Table.String(),
		Found:  fmt.Sprintf("Column %s (%s) may be NULL.", column, want.Key),
		Why:    "A row without a key is a bad row: run halts at it, unless router.bad_rows.null_key says otherwise.",
		Remedy: "Declare it NOT NULL.",
		Commands: []string{
			fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", t.Table.SQL(), column),
		},
	}}
}

// everyRowBad says what a warning leads to: without it, a first row that halts the connector is a surprise.
const everyRowBad = " Every row with a value would be a bad row: see router.on_bad_row."

// checkColumnType warns of types whose text says something else than people expect in a record.
func checkColumnType(subject string, want postgres.NeededColumn, c postgres.TableColumn) []preflight.Finding {
	warn := func(why, remedy string) []preflight.Finding {
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: subject,
			Found: fmt.Sprintf("Column %s (%s) is %s.", identifier.Quote(c.Name), want.Key, c.Type),
			Why:   why, Remedy: remedy,
		}}
	}
	switch want.Role {
	case "headers":
		if c.Type != "json" && c.Type != "jsonb" {
			why := "Headers are the members of a JSON object."
			if c.Type == "hstore" {
				why += everyRowBad
			}
			return warn(why, "Make it jsonb, or leave "+want.Key+" empty.")
		}
	case "timestamp_s", "timestamp_ms", "timestamp_us":
		if c.Category != "N" {
			return warn("router.timestamp_unit is for a number that counts from 1970; every row would be bad.",
				"Leave router.timestamp_unit empty.")
		}
	case "timestamp":
		if c.Type == "timestamp without time zone" {
			if strings.HasPrefix(want.Key, "router.debezium.") {
				// the only type that Debezium's event router takes, in UTC too; with another there is no return to it
				return nil
			}
			return warn("The value does not say which time zone it is in; it is taken as UTC.", "Make it timestamptz.")
		}
		if c.Type != "timestamp with time zone" {
			return warn(notATime(want, c))
		}
	case "aggregate_type", "aggregate_id":
		if c.Category == "A" || c.Category == "C" || c.Type == "json" || c.Type == "jsonb" || c.Type == "bytea" {
			return warn("Topic and key are built from its text as Postgres "+
				"prints it.", "Map a column of text, uuid, a number or an enum.")
		}
	}
	return nil
}

// notATime says why a timestamp column of the type is none, and what to do.
func notATime(want postgres.NeededColumn, c postgres.TableColumn) (why, remedy string) {
	why = "It is not a point in time."
	if strings.HasPrefix(want.Key, "router.columns.") && (c.Category == "N" || c.Type == "date") {
		why += everyRowBad
	}
	remedy = "Make it timestamptz, or leave " + want.Key + " empty: then the commit time is used."
	if c.Category == "N" {
		remedy = "Set router.timestamp_unit to s, ms or us if it counts from 1970. Otherwise: " + remedy
	}
	return why, remedy
}

// checkGenerated finds needed columns that are generated and not sent. From PostgreSQL 18 on a publication sends stored
// columns if its option or its column list includes them (Postgres docs, CREATE PUBLICATION).
func checkGenerated(cfg Config, st state, t postgres.OutboxTable) []preflight.Finding {
	pt, _ := st.Publication.Table(t.Table)
	var out []preflight.Finding
	for _, want := range cfg.Columns.Needed {
		c, ok := t.Column(want.Name)
		if !ok || !c.Generated || slices.Contains(pt.Columns, c.Name) {
			continue
		}
		f := preflight.Finding{
			Level: preflight.Fail, Subject: "table " + t.Table.String(),
			Found:  fmt.Sprintf("Column %s (%s) is generated.", identifier.Quote(c.Name), want.Key),
			Why:    "Postgres does not send it: the value is not in the log.",
			Remedy: "Map an ordinary column, or let a BEFORE INSERT trigger fill this one.",
		}
		switch {
		case !c.Stored:
		case st.Server.Version < 180000:
			f.Why = "Before version 18 Postgres leaves generated columns out of the stream."
		case !st.Publication.Exists:
			f.Why = "Postgres sends a stored generated column only if the publication includes it."
			f = f.With(fault.Do("Create the publication with it, or map an ordinary column.",
				strings.TrimSuffix(cfg.PublicationDDL(t.Partitioned()), ");")+", publish_generated_columns = stored);"))
		default:
			f.Why = "The publication does not include generated columns."
			f = f.With(fault.Do("Include stored generated columns. Rows written before come without.",
				fmt.Sprintf("ALTER PUBLICATION %s SET (publish_generated_columns = stored);",
					identifier.Quote(cfg.Publication))))
		}
		out = append(out, f)
	}
	return out
}
