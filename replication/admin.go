package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// AdminConfig says what the connector needs in Postgres. Setup, Ensure, Teardown and Preflight take it.
type AdminConfig struct {
	Slot        string
	Publication string
	Tables      []identifier.Table // may be empty where only logical messages are read
	Columns     OutboxColumns

	// Memory is the table that remembers how far the slot is confirmed; none where it has no name.
	Memory identifier.Table

	Snapshot bool // list the rows that are in the tables when the slot is created, to be published once
	Failover bool // 17+: create the slot with failover, so that standbys keep a copy of it

	// Standby says that the slot is on a standby, 16+. What is made on the primary is made at PrimaryDSN; empty: by hand.
	Standby    bool
	PrimaryDSN string

	// TableDDL creates the outbox tables, one statement or several; Setup runs it when one of Tables is missing. Empty:
	// a missing table is an error.
	TableDDL string
	// TableHint is the DDL that remedies show for a missing table where TableDDL is empty; it is never run.
	TableHint string
	// SetupNever says that the connector creates nothing by itself, so that Preflight fails where there is nothing yet.
	SetupNever bool
	// Retained are the slot monitor's thresholds, which Preflight names.
	Retained Retained
	// Role is given what the connector needs and nothing more; Setup creates it when it is missing (without a
	// password). Empty: no grants.
	Role string

	// SlotWait bounds the creation of the slot, which waits for every transaction open at that moment. Default 1m; the
	// context ends it earlier.
	SlotWait time.Duration
	// ConnectTimeout bounds one connection attempt, unless the DSN has a connect_timeout. Default 10s.
	ConnectTimeout time.Duration

	Logger *zap.Logger // default: none

	onlyNeeded bool // see withoutExtras
	unprepared bool // see withWay

	takenOver *TakenOver // see CutOver
}

// OutboxColumns names the columns of an event: those that the SQL here uses itself, and all that records are made of.
type OutboxColumns struct {
	ID, AggregateType, AggregateID string
	Timestamp                      string // empty: not mapped

	Needed []NeededColumn
}

// NeededColumn is a column that records are made of, as router.Need describes it.
type NeededColumn struct {
	Name string
	Key  string // the setting that names it
	Role string // id, aggregate_type, aggregate_id, type, payload, headers or timestamp; empty: none of these

	Required bool // without it every row is held up
	Usual    bool // where it is not required: that a table lacks it is worth a warning
}

func (cfg AdminConfig) withDefaults() AdminConfig {
	if cfg.SlotWait <= 0 {
		cfg.SlotWait = time.Minute
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return cfg
}

// check refuses names that Postgres would refuse or change.
func (cfg AdminConfig) check() error {
	if err := identifier.CheckSlotName(cfg.Slot); err != nil {
		return &fault.Error{Kind: fault.Config, Object: "slot", Err: err, Next: "Set postgres.slot to another name."}
	}
	if err := identifier.Check(cfg.Publication); err != nil {
		return &fault.Error{Kind: fault.Config, Object: "publication", Err: err, Next: "Set postgres.publication."}
	}
	for _, t := range cfg.Tables {
		for _, name := range []string{t.Schema, t.Name} {
			if err := identifier.Check(name); err != nil {
				return &fault.Error{Kind: fault.Config, Object: "table " + t.String(), Err: err, Next: "Set postgres.tables."}
			}
		}
	}
	if err := cfg.checkSnapshotName(); err != nil {
		return err
	}
	if cfg.Role != "" {
		if err := identifier.Check(cfg.Role); err != nil {
			return &fault.Error{Kind: fault.Config, Object: "role", Err: err}
		}
	}
	return nil
}

// adminCancelDelay is how long a cancelled statement may take to end before its connection is given up.
const adminCancelDelay = 5 * time.Second

// adminConnect opens an ordinary connection. A context that ends cancels the running statement on the server, so
// that no slot is created for somebody who has gone away, and leaves the connection usable for one last question.
func adminConnect(ctx context.Context, dsn string, cfg AdminConfig, settings ...map[string]string) (*pgx.Conn, error) {
	pc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, adminDSNFault(err)
	}
	delete(pc.RuntimeParams, "replication") // the DSN may be the stream's; a walsender has no extended protocol
	if pc.RuntimeParams["application_name"] == "" {
		pc.RuntimeParams["application_name"] = "cdc-outbox admin"
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = cfg.ConnectTimeout
	}
	withSettings(pc, settings)
	if cfg.unprepared {
		pc.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	pc.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	return connectCancelling(ctx, pc)
}

// connectCancelling opens a connection on which the end of a context cancels the running statement on the server.
func connectCancelling(ctx context.Context, pc *pgx.ConnConfig) (*pgx.Conn, error) {
	pc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: adminCancelDelay}
	}
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, adminConnectFault(pc, err)
	}
	return conn, nil
}

// adminDSNFault drops the cause's text: the parser quotes the DSN in it and masks a password only as best it can.
func adminDSNFault(error) error {
	return &fault.Error{
		Kind: fault.Config, Object: "postgres.dsn", Err: errors.New("it is neither a libpq connection string nor a postgres:// URL"),
		Next: "Write it as postgres://user@host:5432/database or host=… port=… dbname=… user=….",
	}
}

// adminServer names the server without user, password or parameters.
func adminServer(pc *pgx.ConnConfig) string {
	s := fmt.Sprintf("postgres %s:%d", pc.Host, pc.Port)
	for i, f := range pc.Fallbacks {
		if i == 0 || f.Host != pc.Fallbacks[i-1].Host || f.Port != pc.Fallbacks[i-1].Port {
			if other := fmt.Sprintf(", %s:%d", f.Host, f.Port); f.Host != pc.Host || f.Port != pc.Port {
				s += other
			}
		}
	}
	return s
}

// adminConnectFault says what kept a connection from being made, without the DSN.
func adminConnectFault(pc *pgx.ConnConfig, err error) error {
	f := &fault.Error{Kind: fault.Retry, Object: adminServer(pc), Err: err}
	var pg *pgconn.PgError
	var dial *pgconn.ConnectError
	switch {
	case errors.As(err, &pg) && (poolerRefusal(pg) || poolerLogin(pg)):
		return way{Refusal: pg}.toHostOf(&pc.Config).fault()
	case errors.As(err, &pg):
		f.Err = &serverRefusal{pg}
		f.Kind, f.Next = adminRefusal(pc, pg.Code)
		if pg.Code == "28000" && strings.HasSuffix(pg.Message, "does not exist") { // InitializeSessionUserId in miscinit.c
			f.Next = fmt.Sprintf("-- as a role that may create roles; cdc-outbox setup --role %[1]s with such a role in --postgres-dsn does it, with the rights:\nCREATE ROLE %[1]s LOGIN;", identifier.Quote(pc.User))
		}
	case errors.As(err, &dial):
		f.Err = fmt.Errorf("cannot connect: %w", fault.OneLine(dial.Unwrap()))
		f.Next = nextConnect(pc.Host, pc.Port, dial.Unwrap())
	}
	return f
}

// adminRefusal reads the SQLSTATE with which a server turns a connection away (Postgres docs, appendix A).
func adminRefusal(pc *pgx.ConnConfig, code string) (fault.Kind, string) {
	role := identifier.Quote(pc.User)
	switch code {
	case "28P01":
		return fault.Operator, fmt.Sprintf("-- set the password in postgres.dsn, or give the role a new one in psql:\n\\password %s", role)
	case "28000":
		return fault.Operator, fmt.Sprintf("-- see whether pg_hba.conf has a line for the role, this database and this host; if the role may not log in:\nALTER ROLE %s LOGIN;", role)
	case "3D000":
		return fault.Operator, fmt.Sprintf("-- name the outbox's database in postgres.dsn, or create it:\nCREATE DATABASE %s;", identifier.Quote(pc.Database))
	case "42704": // the driver passes a word that it does not know on to the server
		return fault.Operator, "Take the parameter out of postgres.dsn, or correct its name."
	case "42501":
		return fault.Operator, fmt.Sprintf("GRANT CONNECT ON DATABASE %s TO %s;", identifier.Quote(pc.Database), role)
	case "53300":
		return fault.Retry, "Wait for a free connection, or raise max_connections (or the role's or database's CONNECTION LIMIT)."
	}
	return fault.Retry, ""
}

// adminSQLState returns the SQLSTATE of an error, empty where it is not the server's.
func adminSQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// adminQueryFault classifies an error of a catalog query: the server's own refusals need somebody, a broken connection
// passes.
func adminQueryFault(object string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	f := &fault.Error{Kind: fault.Retry, Object: object, Err: err}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return f
	}
	f.Kind, f.Err = findRule(pg.Code).kind, &serverRefusal{pg}
	return f
}
