package sqlstate

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// SQLSTATEs that the relay distinguishes (Postgres docs, appendix A).
const (
	DuplicateObject   = "42710" // publication, role, slot
	DuplicateTable    = "42P07"
	UniqueViolation   = "23505" // two sessions insert the same catalog row
	NotNullViolation  = "23502"
	QueryCanceled     = "57014"
	ReadOnly          = "25006"
	SyntaxError       = "42601" // also an ordinary session's answer to a command of the replication protocol
	UndefinedTable    = "42P01"
	UndefinedColumn   = "42703"
	UndefinedObject   = "42704" // a publication, a slot, a parameter
	UndefinedSchema   = "3F000"
	NotPermitted      = "42501"
	ObjectInUse       = "55006" // another session holds the slot
	LockNotAvailable  = "55P03" // within lock_timeout
	DeadlockDetected  = "40P01"
	LimitExceeded     = "53400" // of the server's configuration: all replication slots are in use
	CannotConnectNow  = "57P03"
	AdminShutdown     = "57P01"
	ProtocolViolation = "08P01"
	Internal          = "XX000"
)

// LoginRemedy is what to do about a refused login.
const LoginRemedy = "Set user and password in postgres.dsn; see that pg_hba.conf has a line for this role, " +
	"database and host (a walsender with a database matches the database's name)."

// kinds are what an SQLSTATE, or a class of them by its first two characters, asks for. They are searched in order.
var kinds = []struct {
	code string
	kind fault.Kind
}{
	{"28", fault.Operator}, // Retry once a login has worked: passwords rotate on both sides, not at once
	{"3D000", fault.Operator},
	{NotPermitted, fault.Operator},
	{UndefinedObject, fault.Operator},
	{"42602", fault.Config}, // illegal slot name
	{"58P01", fault.Operator},
	{"55000", fault.Operator},
	{"54", fault.Operator}, // a row that does not fit into a message
	{"0A", fault.Operator},
	{"22", fault.Operator},
	{"42", fault.Operator},
	{ObjectInUse, fault.Retry},
	{"08", fault.Retry},
	{ReadOnly, fault.Operator}, // default_transaction_read_only, which stays
	{"25", fault.Retry},
	{"40", fault.Retry}, // a standby's recovery conflicted
	{"53", fault.Retry}, // connections, memory, disk
	{"55", fault.Retry},
	{"57", fault.Retry},     // shut down, starting up, terminated
	{"58", fault.Retry},     // I/O
	{Internal, fault.Retry}, // among them passing trouble with reading WAL
}

// KindOf returns what an SQLSTATE asks for. A code that is not in the table ends the process: an unknown error must not
// be retried for ever unnoticed.
func KindOf(code string) fault.Kind {
	for _, k := range kinds {
		if code == k.code || len(k.code) == 2 && strings.HasPrefix(code, k.code) {
			return k.kind
		}
	}
	return fault.Fatal
}

// Of returns the SQLSTATE of an error, empty where the error is not the server's.
func Of(err error) string {
	if pg := RefusalOf(err); pg != nil {
		return pg.Code
	}
	return ""
}

// RefusalOf returns the server's own error in err, nil where there is none.
func RefusalOf(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg
	}
	return nil
}

// Refusal is a server's error with its detail, which often holds the reason, and without the statement it came from.
// Unwrap returns the *pgconn.PgError.
type Refusal struct{ PgError *pgconn.PgError }

func (e *Refusal) Error() string {
	s := e.PgError.Message
	if e.PgError.Detail != "" && !dataInDetail(e.PgError.Code) {
		s += " (" + e.PgError.Detail + ")"
	}
	return s + " (SQLSTATE " + e.PgError.Code + ")"
}

func (e *Refusal) Unwrap() error { return e.PgError }

// dataInDetail reports which errors quote a row's values in their detail.
func dataInDetail(code string) bool {
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}
