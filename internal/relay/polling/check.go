package polling

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// serverState are the facts about the server.
type serverState struct {
	Version    int
	InRecovery bool
	Role       string
	Encoding   string
}

const serverSQL = `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_user::text,
	current_setting('server_encoding')`

func lookupServer(ctx context.Context, conn *pgx.Conn) (s serverState, err error) {
	err = conn.QueryRow(ctx, serverSQL).Scan(&s.Version, &s.InRecovery, &s.Role, &s.Encoding)
	if err != nil {
		return s, postgres.QueryFault("server", err)
	}
	return s, nil
}

// Check looks at everything that polling needs in Postgres. A server that cannot be asked is a finding.
func Check(ctx context.Context, dsn string, s Setup) []preflight.Finding {
	conn, err := s.connect(ctx, dsn, "cdc-outbox check")
	if err != nil {
		return []preflight.Finding{unanswered(err)}
	}
	defer postgres.CloseConn(conn)
	return findings(ctx, conn, &s)
}

func unanswered(err error) preflight.Finding {
	why, remedy := fault.Split(err)
	return preflight.Finding{
		Level: preflight.Fail, Subject: "postgres", Found: why + ".",
		Why: "Without an answer nothing can be relayed.", Remedy: remedy.Next,
		Commands: remedy.Commands,
	}
}

func findings(ctx context.Context, conn *pgx.Conn, s *Setup) []preflight.Finding {
	server, err := lookupServer(ctx, conn)
	if err != nil {
		return []preflight.Finding{unanswered(err)}
	}
	limits, keepalives, err := postgres.LookupLimits(ctx, conn)
	if err != nil {
		return []preflight.Finding{unanswered(err)}
	}
	out := append([]preflight.Finding{checkServer(server)}, postgres.CheckLimits(limits, keepalives, server.Role)...)
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, s)
		if err != nil {
			return append(out, unanswered(err))
		}
		reader, err := readFromLog(ctx, conn, t)
		if err != nil {
			return append(out, unanswered(err))
		}
		if reader != nil {
			out = append(out, *reader)
			continue // nothing else may be advised: it would lead to polling
		}
		out = append(out, checkTable(st, server, s)...)
		info, err := postgres.LookupTable(ctx, conn, t)
		if err != nil {
			return append(out, unanswered(postgres.QueryFault("table "+t.String(), err)))
		}
		if f := postgres.CheckUniqueID(info, s.Columns.ID); f != nil {
			out = append(out, *f)
		}
	}
	kept, err := checkKept(ctx, conn, s, server.Role)
	if err != nil {
		return append(out, unanswered(postgres.QueryFault("postgres", err)))
	}
	return append(out, kept...)
}

func checkServer(s serverState) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.OK, Subject: "server",
		Found: fmt.Sprintf("PostgreSQL %d.%d, connected as %q.", s.Version/10000, s.Version%10000, s.Role),
	}
	switch {
	case s.InRecovery:
		f.Level, f.Found, f.Why = preflight.Fail, "The server is a standby.",
			"Rows that are published have to be marked, and nothing can be written here."
		f.Remedy = "Name all hosts in postgres.dsn, with target_session_attrs=read-write."
	case s.Version < 140000:
		f.Level, f.Why, f.Remedy = preflight.Fail, "PostgreSQL 14 is the oldest version that is tested.",
			"Use a newer server."
	}
	return f
}

// checkTable names the faults of a table; if it has none, one finding says so.
func checkTable(t *tableState, server serverState, s *Setup) []preflight.Finding {
	setup := setUp(t, s)
	if f := checkTableItself(t, s); f != nil {
		return []preflight.Finding{*f}
	}
	out := checkColumns(t, s, setup)
	if t.Filtered {
		out = append([]preflight.Finding{t.fail("Row security hides rows from the role.",
			"Rows that are not visible are not published, and nothing would report it.",
			fault.Do("Let the role see all rows.",
				fmt.Sprintf("ALTER ROLE %s BYPASSRLS;", quoted(server.Role))))}, out...)
	}
	if len(out) > 0 {
		return out
	}
	if !t.MaySelect || !t.MayMark {
		return []preflight.Finding{t.fail(fmt.Sprintf("Role %q may not read it or not mark rows in it.", server.Role),
			"Published rows have to be marked.",
			fault.Do("Grant the rights as the table's owner.", grantsOf(t.Table, s, server.Role)...))}
	}
	if !t.served() {
		out = append(out, t.fail("No index serves the unpublished rows by lane and sequence.",
			"Each query would read the whole table.", setup))
	}
	if s.Notify && !t.HasTrigger {
		out = append(out, t.warn("It has no trigger that notifies.",
			"polling.notify has no effect: rows are found at the next query.", setup))
	}
	if t.Persistence == "u" {
		out = append(out, t.warn("It is unlogged.",
			"Postgres empties it after a crash, with the events that were not published.",
			fault.Do("Make it a logged table, which rewrites it.", "ALTER TABLE "+t.Table.SQL()+" SET LOGGED;")))
	}
	if len(out) == 0 {
		out = append(out, preflight.Finding{
			Level: preflight.OK, Subject: t.subject(), Found: "Columns, index and rights for polling are present.",
		})
	}
	return out
}

// setUp is the remedy for missing parts that setup creates.
func setUp(t *tableState, s *Setup) fault.Remedy {
	commands := make([]string, 0, 1)
	for _, step := range planTable(t, s) {
		commands = append(commands, step.SQL)
	}
	return fault.Do("Run `cdc-outbox setup`, or run the commands as the table's owner.", commands...)
}

// checkTableItself finds a fault that rules out all other checks; nil if there is none.
func checkTableItself(t *tableState, s *Setup) *preflight.Finding {
	var f preflight.Finding
	column, ended := t.renamedColumn(s.Columns.Published)
	switch {
	case !t.Exists:
		remedy := fault.Do("Create the table.", "cdc-outbox setup --table")
		if s.TableHint != "" {
			remedy = fault.Do("Create the table by hand, then run setup. `cdc-outbox setup --table` does both.",
				s.TableHint, "cdc-outbox setup")
		}
		f = t.fail("It does not exist.", "There is nothing to relay.", remedy)
	case ended:
		f = t.fail(fmt.Sprintf("Polling of this table was ended by `cdc-outbox migrate polling`: %s is called %s now.",
			quoted(s.Columns.Published), quoted(column)),
			"What the log brings would be published a second time.", fault.Do(endedNext))
	case t.Kind != "r" && t.Kind != "p":
		f = t.fail("It is not a table.", "Rows can only be marked in a table.",
			fault.Do("Name the table in postgres.tables."))
	default:
		return nil
	}
	return &f
}

// checkColumns finds columns that are missing or of a type that does not fit.
func checkColumns(t *tableState, s *Setup, setup fault.Remedy) (out []preflight.Finding) {
	if _, ok := t.column(s.Columns.Key); !ok {
		out = append(out, t.fail(fmt.Sprintf("It has no column %s.", quoted(s.Columns.Key)),
			"The record's key begins with it, and the lane follows from it.",
			fault.Do("Set router.columns.aggregate_id, or add the column.")))
	}
	out = append(out, checkSequence(t, s, setup)...)
	switch published, ok := t.column(s.Columns.Published); {
	case !ok:
		out = append(out, t.fail(fmt.Sprintf("It has no column %s.", quoted(s.Columns.Published)),
			"It says which rows are published.", setup))
	case !strings.HasPrefix(published.Type, "timestamp"):
		out = append(out, t.fail(fmt.Sprintf("Column %s is %s.", quoted(published.Name), published.Type),
			"The time is written there when Kafka has the row.",
			fault.Do("Set polling.columns.published_at to a column of type timestamptz.")))
	}
	return out
}

func (t *tableState) subject() string { return "table " + t.Table.String() }

func (t *tableState) fail(found, why string, remedy fault.Remedy) preflight.Finding {
	return preflight.Finding{Level: preflight.Fail, Subject: t.subject(), Found: found, Why: why}.With(remedy)
}

func (t *tableState) warn(found, why string, remedy fault.Remedy) preflight.Finding {
	return preflight.Finding{Level: preflight.Warn, Subject: t.subject(), Found: found, Why: why}.With(remedy)
}

func checkSequence(t *tableState, s *Setup, setup fault.Remedy) []preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Fail, Subject: t.subject(),
		Why: "It puts the events of an aggregate in order.",
	}
	seq, ok := t.column(s.Columns.Sequence)
	name := quoted(s.Columns.Sequence)
	switch {
	case !ok:
		f = f.With(setup)
		f.Found = fmt.Sprintf("It has no column %s.", name)
	case seq.Type != "bigint" && seq.Type != "integer":
		f.Found, f.Remedy = fmt.Sprintf("Column %s is %s.", name, seq.Type),
			"Set polling.columns.sequence to a column of type bigint that counts up."
	case !seq.NotNull:
		f.Found = fmt.Sprintf("Column %s may be NULL.", name)
		f = f.With(fault.Do("Let it take no NULL.",
			fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", t.Table.SQL(), name)))
	case seq.Cache > 1:
		f.Found = fmt.Sprintf("The sequence of column %s hands numbers out to sessions by %d at a time.", name,
			seq.Cache)
		f.Why = "A session that writes an aggregate's later event may so give it a lower number: it would be " +
			"published first."
		f = f.With(fault.Do("Let it hand out single numbers.",
			fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET CACHE 1;", t.Table.SQL(), name)))
		if seq.Identity == "" {
			f = f.With(fault.Do("Run ALTER SEQUENCE with CACHE 1 for the sequence of column " + name + "."))
		}
	default:
		return nil
	}
	return []preflight.Finding{f}
}

// Verify is Check's verdict before anything is relayed: the first thing that an operator has to fix.
func Verify(ctx context.Context, dsn string, s Setup) error {
	conn, err := s.connect(ctx, dsn, "cdc-outbox")
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	server, err := lookupServer(ctx, conn)
	if err != nil {
		return err
	}
	if server.InRecovery { // the others may be promoted, and the role of this one may come back
		f := checkServer(server)
		return &fault.Error{
			Kind: fault.Retry, Object: "server", Err: errors.New(strings.TrimSuffix(f.Found, ".")),
			Next: f.Remedy, Commands: f.Commands,
		}
	}
	all := []preflight.Finding{checkServer(server)}
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, &s)
		if err != nil {
			return err
		}
		all = append(all, checkTable(st, server, &s)...)
	}
	for _, f := range all {
		if f.Level == preflight.Fail {
			return verdict(f)
		}
	}
	return nil
}
