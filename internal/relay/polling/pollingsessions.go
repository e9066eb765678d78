package polling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// sessionName begins the application_name of a relay's sessions. The tables follow it, so that an operator who looks
// at the server's sessions can see which of them are polled.
const sessionName = "cdc-outbox/polling"

// mostOfName is how much of an application_name a server keeps (NAMEDATALEN − 1).
const mostOfName = 63

func sessionOf(tables []identifier.Table) string {
	var names []string
	for _, t := range tables {
		names = append(names, t.String())
	}
	name := sessionName + " " + strings.Join(names, ",")
	if len(name) > mostOfName {
		name = strings.ToValidUTF8(name[:mostOfName], "")
	}
	return name
}

// maySessionPoll reports whether a session of this name may belong to a relay that polls the table. One whose name was
// cut may poll any.
func maySessionPoll(application string, t identifier.Table) bool {
	names, ok := strings.CutPrefix(application, sessionName+" ")
	cut := len(application) > mostOfName-utf8.UTFMax // a name that is cut loses all of its last character
	return ok && (cut || slices.Contains(strings.Split(names, ","), t.String()))
}

// beside is a table's relation to polling while the table is, or is to be, read from the log.
type beside struct {
	ready   bool     // it has the column and the index that polling needs
	claimed bool     // another session has claimed lanes of it at this moment
	polled  []string // sessions of relays that poll it, as far as the role may see them
}

// live reports whether a relay polls the table.
func (b *beside) live() bool { return b.ready && (b.claimed || len(b.polled) > 0) }

// A lane's lock is on two integers (objsubid 2), and every role may see it; a session's application_name is visible to
// its own role and pg_read_all_stats only (Postgres docs 27.2.3). A relay that has nothing to do looks every few
// seconds; a session that has been idle for longer is a pooler's, kept from a relay that has ended, or a worker's
// beside others that look.
const besideSQL = `SELECT
  EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = $3::text
    AND NOT a.attisdropped)
    AND EXISTS (SELECT FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
      WHERE x.indrelid = c.oid AND i.relname = $4::text),
  EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
    WHERE d.datname = current_database()
    AND l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid::bigint = $5::bigint),
  ARRAY(SELECT coalesce(s.application_name, '') || E'\x01' || format('pid %s, role %I%s', s.pid, coalesce(s.usename,
    '?'), ', from ' || host(s.client_addr)) FROM pg_catalog.pg_stat_activity s
    WHERE s.datname = current_database() AND starts_with(s.application_name, $6::text)
      AND (s.state <> 'idle' OR s.state_change > clock_timestamp() - interval '15 seconds') ORDER BY s.pid)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text
    AND c.relname = $2::text`

func lookBeside(ctx context.Context, conn *pgx.Conn, t identifier.Table, published string) (b beside, err error) {
	var sessions []string
	err = conn.QueryRow(ctx, besideSQL, t.Schema, t.Name, published, indexName(t), int64(uint32(lockClass(t))),
		sessionName).
		Scan(&b.ready, &b.claimed, &sessions)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, nil
	}
	if err != nil {
		return b, postgres.QueryFault("table "+t.String(), err)
	}
	for _, s := range sessions {
		if name, who, _ := strings.Cut(s, "\x01"); maySessionPoll(name, t) {
			b.polled = append(b.polled, who)
		}
	}
	return b, nil
}

// finding is nil if nothing speaks for a relay that polls.
func (b *beside) finding(t identifier.Table, published string) *preflight.Finding {
	subject := "table " + t.String()
	switch {
	case b.live():
		who := "its lanes are claimed"
		if len(b.polled) > 0 {
			who = b.polled[0]
			if more := len(b.polled) - 1; more > 0 {
				who += fmt.Sprintf(", and %d more", more)
			}
		}
		return &preflight.Finding{
			Level: preflight.Fail, Code: "polled", Subject: subject,
			Found: fmt.Sprintf("A relay with source: polling is at work on it (%s).", who),
			Why:   "What it publishes would come from the log as well: each event twice.",
			Remedy: "Take over from it, nothing missing and nothing twice, with this configuration and " +
				"postgres.snapshot: initial. Or stop every relay that polls: what they leave unpublished comes " +
				"through no slot that is made afterwards.",
			Commands: []string{"cdc-outbox migrate polling"},
		}
	case b.ready:
		return &preflight.Finding{
			Level: preflight.Warn, Code: "pollable", Subject: subject,
			Found: fmt.Sprintf("It is read from the log, and has what polling needs: %s and the index %s.",
				quoted(published), quoted(indexName(t))),
			Why: "A relay that polls may be publishing the same rows: each event would come twice.",
			Remedy: "Stop every relay with source: polling. Where none is to poll again, drop the index as the " +
				"table's owner.",
			Commands: []string{"DROP INDEX " + quoted(t.Schema) + "." + quoted(indexName(t)) + ";"},
		}
	}
	return nil
}

// CheckBesideLog reports tables that are read from the log, or are to be, and polled too: it fails if a relay is seen
// at work, and warns if one could be.
func CheckBesideLog(ctx context.Context, dsn string, s Setup) []preflight.Finding {
	out, _ := besideLog(ctx, dsn, s) // why the server does not answer, the other findings say
	return out
}

// RefuseBesideLog is CheckBesideLog's verdict before the log is read, which comes with its warnings. A server that can
// be asked and refuses to tell has nothing against it.
func RefuseBesideLog(ctx context.Context, dsn string, s Setup) (warnings []preflight.Finding, err error) {
	all, err := besideLog(ctx, dsn, s)
	if err != nil && fault.KindOf(err) == fault.Retry {
		return nil, err
	}
	for _, f := range all {
		if f.Level == preflight.Fail {
			return nil, verdict(f)
		}
	}
	return all, nil
}

func besideLog(ctx context.Context, dsn string, s Setup) (out []preflight.Finding, err error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox check")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	for _, t := range s.Tables {
		b, err := lookBeside(ctx, conn, t, s.Columns.Published)
		if err != nil {
			return out, err
		}
		if f := b.finding(t, s.Columns.Published); f != nil {
			out = append(out, *f)
		}
	}
	return out, nil
}

// A walsender's query is the START_REPLICATION that it serves, with the publications as replication.Config names them:
// identifiers in a literal. Others than cdc-outbox may read the table, to keep a copy of it; they do not
// publish events.
const readersSQL = `SELECT coalesce(string_agg(format('pid %s, %s, role %I', s.pid, s.application_name,
	coalesce(s.usename, '?')), '; ' ORDER BY s.pid), '')
  FROM pg_catalog.pg_stat_activity s WHERE s.backend_type = 'walsender' AND s.datname = current_database()
    AND starts_with(s.application_name, 'cdc-outbox/')
   AND EXISTS (SELECT FROM pg_catalog.pg_publication_tables p WHERE p.schemaname = $1::text AND p.tablename = $2::text
     AND position('''"' || replace(replace(p.pubname, '"', '""'), '''', '''''') || '"''' IN s.query) > 0)`

// readFromLog fails for a table that a connector reads from the log at this moment, as far as the role may see it. nil:
// none is seen.
func readFromLog(ctx context.Context, conn *pgx.Conn, t identifier.Table) (*preflight.Finding, error) {
	var who string
	if err := conn.QueryRow(ctx, readersSQL, t.Schema, t.Name).Scan(&who); err != nil || who == "" {
		if err != nil {
			err = postgres.QueryFault("table "+t.String(), err)
		}
		return nil, err
	}
	return &preflight.Finding{
		Level: preflight.Fail, Code: "read_from_log", Subject: "table " + t.String(),
		Found: fmt.Sprintf("It is read from the log (%s).", who),
		Why:   "Polling besides would publish each event twice.", Remedy: endedNext,
	}, nil
}

// refuseReadFromLog is its verdict.
func refuseReadFromLog(ctx context.Context, conn *pgx.Conn, t identifier.Table) error {
	f, err := readFromLog(ctx, conn, t)
	if err != nil || f == nil {
		return err
	}
	return verdict(*f)
}

func verdict(f preflight.Finding) error {
	return &fault.Error{
		Kind: fault.Operator, Object: f.Subject,
		Err:  errors.New(strings.TrimSuffix(f.Found, ".") + ". " + strings.TrimSuffix(f.Why, ".")),
		Next: f.Remedy, Commands: f.Commands,
	}
}
