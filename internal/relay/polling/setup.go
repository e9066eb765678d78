package polling

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
)

// planTable lists the parts that are missing for a table that exists, or will when the DDL has run.
func planTable(t *tableState, s *Setup) []setup.Step {
	var steps []setup.Step
	add := func(why, format string, args ...any) {
		steps = append(steps, setup.Step{SQL: fmt.Sprintf(format, args...), Why: why})
	}
	table, c := t.Table.SQL(), s.Columns
	if _, ok := t.column(c.Published); !ok {
		switch {
		case !t.Exists, s.PublishExisting:
			add("Says when Kafka had the row; NULL: not yet.",
				"ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s timestamptz;", table, quoted(c.Published))
		default:
			add("Says when Kafka had the row; NULL: not yet. Rows that are there now count as published "+
				"(--publish-existing has them published).\nOne transaction, so that no row comes in between.",
				"BEGIN;\nALTER TABLE %[1]s ADD COLUMN %[2]s timestamptz DEFAULT now();\nALTER TABLE %[1]s ALTER "+
					"COLUMN %[2]s DROP DEFAULT;\nCOMMIT;", table, quoted(c.Published))
		}
	}
	_, sequenced := t.column(c.Sequence)
	if !sequenced {
		why := "Puts the events of an aggregate in order."
		if t.Exists {
			why += " Postgres rewrites the table for it and locks it meanwhile; on a large one choose a quiet " +
				"hour, or prune it first."
		}
		add(why, "ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s bigint GENERATED ALWAYS AS IDENTITY;", table,
			quoted(c.Sequence))
		if !t.partitioned() {
			add("Marking leaves a dead row for each event: VACUUM has to come more often than after a fifth "+
				"of the table.",
				"ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);",
				table)
		}
	}
	if !t.served() {
		if t.Index != nil {
			add("It was not built to its end, or is for another column.", "DROP INDEX %s.%s;", quoted(t.Table.Schema),
				quoted(indexName(t.Table)))
		}
		add("Unpublished rows by lane and sequence: everything is found by it, and published rows cost nothing.", "%s",
			indexDDL(t.Table, c, t.Exists && !t.partitioned()))
	}
	if s.Notify && !t.HasTrigger {
		steps = append(steps, notifySteps(t.Table)...)
	}
	return steps
}

// notifySteps make the trigger. The function is in the table's schema; the channel is the same for all tables.
func notifySteps(t identifier.Table) []setup.Step {
	function := quoted(t.Schema) + "." + quoted(functionName)
	return []setup.Step{
		{
			Why: "Wakes the relay at a commit. Transactions that notify take a lock at their commit, one after the " +
				"other, and cannot be prepared (PREPARE TRANSACTION).",
			SQL: fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY "+
				"%s; RETURN NULL; END $$;", function, Channel),
		},
		{
			Why: "By statement, whatever the number of rows.",
			SQL: fmt.Sprintf("CREATE TRIGGER %s AFTER INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s();",
				quoted(triggerName), t.SQL(), function),
		},
	}
}

// grantsOf is all that the relay's role needs for a table.
func grantsOf(t identifier.Table, s *Setup, role string) []string {
	r := quoted(role)
	grants := []string{
		fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", quoted(t.Schema), r),
		fmt.Sprintf("GRANT SELECT ON TABLE %s TO %s;", t.SQL(), r),
	}
	if s.After == Delete {
		return append(grants, fmt.Sprintf("GRANT DELETE ON TABLE %s TO %s;", t.SQL(), r))
	}
	return append(grants, fmt.Sprintf("GRANT UPDATE (%s) ON TABLE %s TO %s;", quoted(s.Columns.Published), t.SQL(), r))
}

// planRole lists the grants that the role lacks.
func planRole(exists bool, s *Setup) []setup.Step {
	if s.Role == "" {
		return nil
	}
	var steps []setup.Step
	if !exists {
		steps = append(steps, setup.Step{
			SQL: fmt.Sprintf("CREATE ROLE %s LOGIN;", quoted(s.Role)),
			Why: `The relay's role; give it a password in psql with \password.`,
		})
	}
	for _, t := range s.Tables {
		for _, g := range grantsOf(t, s, s.Role) {
			steps = append(steps, setup.Step{
				SQL: g,
				Why: "All that polling needs: to read, and to say what is published.",
			})
		}
	}
	if s.LastWord.Name != "" {
		steps = append(steps, setup.Step{
			SQL: fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON TABLE %s TO %s;", s.LastWord.SQL(), quoted(s.Role)),
			Why: "It writes down there why it ended.",
		})
	}
	if s.Decisions.Name != "" {
		steps = append(steps, setup.GrantDecisions(s.Decisions, s.Role))
	}
	return steps
}

// SetupScript is the plan for a database in which nothing exists yet.
func SetupScript(s Setup) []setup.Step {
	var steps []setup.Step
	if s.TableDDL != "" {
		steps = append(steps, setup.Step{
			SQL: s.TableDDL,
			Why: "The outbox table: the service inserts its events there, in the transaction of its change.",
		})
	}
	for _, t := range s.Tables {
		steps = append(steps, planTable(&tableState{Table: t}, &s)...)
	}
	if s.LastWord.Name != "" {
		steps = append(steps, createLastWord(&s))
	}
	if s.Decisions.Name != "" {
		steps = append(steps, setup.CreateDecisions(s.Decisions))
	}
	return append(steps, planRole(false, &s)...)
}

// PlanSetup lists the steps of Apply.
func PlanSetup(ctx context.Context, dsn string, s Setup) ([]setup.Step, error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox admin")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	return plan(ctx, conn, &s)
}

// noIdentity is for a partitioned table without a sequence column on a server that cannot add one.
func noIdentity(t identifier.Table, column string) error {
	schema, sequence := quoted(t.Schema), quoted(t.Name+"_seq")
	return &fault.Error{
		Kind: fault.Operator, Object: "table " + t.String(),
		Err:  errors.New("an identity column cannot be added to a partitioned table before PostgreSQL 17"),
		Next: "Add a column with a default. The role that inserts needs USAGE on the sequence then.",
		Commands: []string{
			fmt.Sprintf("CREATE SEQUENCE %s.%s;", schema, sequence),
			fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s bigint NOT NULL DEFAULT nextval('%s.%s');", t.SQL(),
				quoted(column), schema, sequence),
		},
	}
}

func plan(ctx context.Context, conn *pgx.Conn, s *Setup) ([]setup.Step, error) {
	server, err := lookupServer(ctx, conn)
	if err != nil {
		return nil, err
	}
	var steps []setup.Step
	missing := false
	var tables []*tableState
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, s)
		if err != nil {
			return nil, err
		}
		if column, yes := st.renamedColumn(s.Columns.Published); yes {
			return nil, endedFault(t, s.Columns.Published, column)
		}
		if err := refuseReadFromLog(ctx, conn, t); err != nil {
			return nil, err
		}
		missing = missing || !st.Exists
		tables = append(tables, st)
	}
	if missing && s.TableDDL == "" {
		return nil, &fault.Error{
			Kind: fault.Operator, Object: "postgres.tables",
			Err: errors.New("a table does not exist"), Next: "Create the table.",
			Commands: []string{"cdc-outbox setup --table"},
		}
	}
	if missing {
		steps = append(steps, setup.Step{
			SQL: s.TableDDL,
			Why: "The outbox table: the service inserts its events there, in the transaction of its change.",
		})
	}
	for _, st := range tables {
		if st.partitioned() && server.Version < 170000 && len(st.Columns) > 0 {
			if _, ok := st.column(s.Columns.Sequence); !ok {
				return nil, noIdentity(st.Table, s.Columns.Sequence)
			}
		}
		steps = append(steps, planTable(st, s)...)
	}
	kept, err := planKept(ctx, conn, s)
	if err != nil {
		return nil, err
	}
	steps = append(steps, kept...)
	if s.Role == "" {
		return steps, nil
	}
	exists := false
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text)",
		s.Role).Scan(&exists); err != nil {
		return nil, postgres.QueryFault("role", err)
	}
	return append(steps, planRole(exists, s)...), nil
}

// Apply creates the missing parts and returns the steps done.
func Apply(ctx context.Context, dsn string, s Setup) (done []setup.Step, err error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox admin")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	// The hash has to work before an index has it computed for each insert.
	if _, err := conn.PgConn().Exec(ctx, "SELECT sha256('')").ReadAll(); err != nil {
		return nil, postgres.QueryFault("function sha256", err)
	}
	steps, err := plan(ctx, conn, &s)
	if err != nil {
		return nil, err
	}
	return run(ctx, conn, steps)
}

// run executes steps; each is a message of its own, as CREATE INDEX CONCURRENTLY wants it.
func run(ctx context.Context, conn *pgx.Conn, steps []setup.Step) (done []setup.Step, err error) {
	for _, step := range steps {
		if _, err := conn.PgConn().Exec(ctx, step.SQL).ReadAll(); err != nil {
			f := postgres.QueryFault("setup", err)
			var known *fault.Error
			if errors.As(f, &known) && known.Kind == fault.Operator {
				known.Next = "Run as a role that may do it:\n" + step.SQL
			}
			return done, f
		}
		done = append(done, step)
	}
	return done, nil
}

// PlanTeardown lists the steps that take the parts away again; the tables too, or only polling's additions to them.
func PlanTeardown(ctx context.Context, dsn string, s Setup, dropTables bool) ([]setup.Step, error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox admin")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	return planTeardown(ctx, conn, &s, dropTables)
}

func planTeardown(ctx context.Context, conn *pgx.Conn, s *Setup, dropTables bool) (steps []setup.Step, err error) {
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, s)
		if err != nil {
			return nil, err
		}
		add := func(why, format string, args ...any) {
			steps = append(steps, setup.Step{Why: why, SQL: fmt.Sprintf(format, args...)})
		}
		if st.Exists && dropTables {
			add("With all events in it.", "DROP TABLE %s;", t.SQL())
		} else if st.Exists {
			if st.HasTrigger {
				add("No process listens any more.", "DROP TRIGGER %s ON %s;", quoted(triggerName), t.SQL())
			}
			if st.Index != nil {
				add("No process looks for unpublished rows any more.", "DROP INDEX %s.%s;", quoted(t.Schema),
					quoted(indexName(t)))
			}
			names := []string{s.Columns.Sequence, s.Columns.Published}
			if column, yes := st.renamedColumn(s.Columns.Published); yes {
				names = append(names, column)
			}
			for _, name := range names {
				if _, ok := st.column(name); ok {
					add("Which rows were published is forgotten with it.", "ALTER TABLE %s DROP COLUMN %s;", t.SQL(),
						quoted(name))
				}
			}
		}
		if st.HasTrigger {
			add("No table uses it then; where another one does, Postgres refuses.", "DROP FUNCTION IF EXISTS %s.%s();",
				quoted(t.Schema), quoted(functionName))
		}
	}
	decisions, err := setup.PlanDecisionsTeardown(ctx, conn, s.Decisions, s.Relay, dropTables)
	if err != nil {
		return nil, postgres.QueryFault("table "+s.Decisions.String(), err)
	}
	return append(steps, decisions...), nil
}

// Remove carries the teardown out.
func Remove(ctx context.Context, dsn string, s Setup, dropTables bool) ([]setup.Step, error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox admin")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	steps, err := planTeardown(ctx, conn, &s, dropTables)
	if err != nil {
		return nil, err
	}
	return run(ctx, conn, steps)
}
