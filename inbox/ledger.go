package inbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ledger has the statements and steps that pgx and database/sql share.
type ledger struct {
	opts     Options
	insert   string
	each     string // insert for several events, which returns their ids
	states   string // of several events
	complete string
	state    string
	handled  string // how many of several events are completed
	reserve  string // insert that returns the claim; confirm and release end only that claim
	confirm  string
	release  string
	prune    string
	attempts
}

// session runs one statement inside or outside a transaction.
type session interface {
	exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
	scan(ctx context.Context, dest any, statement string, args ...any) error
	texts(ctx context.Context, statement string, args ...any) ([]string, error) // of the one column
}

// lockStatement requests the lock of an event. It must be a statement of its own before the claim. A statement sees the
// transactions that were committed before it began, so a statement that took the lock and read the row could miss the
// writes of the previous holder of the lock.
const lockStatement = `SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint)
FROM (SELECT CASE WHEN $2::text IS NOT NULL
	THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true) END OFFSET 0) AS setting`

// newLedger makes the statements. They run in the application's sessions, with its search path: another role may have
// made a function or an operator in a schema of that path which fits a call better than the server's own
// (CVE-2018-1058). So functions are qualified, and operands of different types have a type each.
func newLedger(opts Options) (*ledger, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	c := opts.Consumer
	if c == "" || len(c) > maxConsumer || strings.ContainsRune(c, 0) || !utf8.ValidString(c) {
		return nil, fmt.Errorf("inbox: Options.Consumer must be 1 to %d bytes of text", maxConsumer)
	}
	opts.Metrics.expect(c)
	table := opts.table()
	// Only the ledger itself can conflict here. A unique violation is never examined, so a violation in the handler's
	// tables is not mistaken for a duplicate.
	//
	// The offset is committed as soon as the transaction is, so the transaction has to be on disk by then, even if the
	// database or the role has synchronous_commit = off. Every other setting survives a crash of the server, and stays.
	//
	// A limit of the time for which the transaction may be idle costs no round trip of its own here.
	const settings = `(SELECT CASE pg_catalog.current_setting('synchronous_commit')
	WHEN 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END, CASE WHEN $5::text IS NOT NULL
	THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $5, true) END OFFSET 0) AS settings`
	into := `INSERT INTO ` + table + ` (consumer, event_id, status, source, completed_at)
`
	const unlessThere = `
ON CONFLICT (consumer, event_id) DO NOTHING`
	insert := into + `SELECT $1, $2, $3, $4, CASE WHEN $3 = 'COMPLETED' THEN pg_catalog.now() END
FROM ` + settings + unlessThere
	complete := `UPDATE ` + table + ` SET status = 'COMPLETED', completed_at = pg_catalog.clock_timestamp()
WHERE consumer = $1 AND event_id = $2 AND status = 'PROCESSING'`
	// xmin, the transaction that has inserted the row, distinguishes a claim from a later claim of the same event.
	const mine = ` AND xmin::text = $3`
	return &ledger{
		opts: opts, insert: insert, complete: complete, attempts: opts.attempts(),
		each: into + `SELECT $1, e.id, $3, e.source, CASE WHEN $3 = 'COMPLETED' THEN pg_catalog.now() END
FROM ROWS FROM (pg_catalog.unnest($2::text[]), pg_catalog.unnest($4::text[])) AS e (id, source), ` + settings +
			unlessThere + ` RETURNING event_id`,
		states: `SELECT CASE WHEN pg_catalog.bool_and(coalesce(status = 'COMPLETED', false)) THEN 'completed'
	WHEN pg_catalog.bool_or(status = 'PROCESSING') THEN 'unfinished' ELSE 'deleted' END
FROM pg_catalog.unnest($2::text[]) AS e (id) LEFT JOIN ` + table + ` ON consumer = $1 AND event_id = e.id`,
		reserve: insert + ` RETURNING xmin::text`,
		confirm: complete + mine,
		release: `DELETE FROM ` + table + ` WHERE consumer = $1 AND event_id = $2 AND status = 'PROCESSING'` + mine,
		state: `SELECT CASE WHEN status = 'COMPLETED' THEN 'completed'
	WHEN claimed_at < pg_catalog.now() - $3::float8 * interval '1 microsecond' THEN 'stale' ELSE 'fresh' END
FROM ` + table + ` WHERE consumer = $1 AND event_id = $2`,
		handled: `SELECT pg_catalog.count(*) FROM ` + table + `
WHERE consumer = $1 AND event_id = ANY ($2::text[]) AND status = 'COMPLETED'`,
		prune: `DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(SELECT ctid FROM ` + table + `
WHERE consumer = $1 AND claimed_at < pg_catalog.now() - $2::float8 * interval '1 microsecond' AND status = 'COMPLETED'
LIMIT $3 FOR UPDATE SKIP LOCKED))`,
	}, nil
}

// idleLimit is how long the transaction may be idle, in milliseconds: until the context of the handler ends, and its
// end can be sent. A handler that makes a call leaves it idle for so long, whatever the database's limit is; and a
// process that is frozen, or whose host is lost, gives the claim up after that time. Without a deadline it is nil, and
// the session's limit stays.
func idleLimit(ctx context.Context) any {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	limit := (max(time.Until(deadline), 0) + rollbackLimit).Milliseconds()
	return strconv.FormatInt(min(limit, math.MaxInt32), 10)
}

// errEnded reports that an effect may be committed without its claim, or rolled back with it. A next delivery finds out
// by the ledger.
var errEnded = errors.New("inbox: the handler has ended the transaction itself")

// once claims the event, runs handle and completes the claim, in one transaction.
func (l *ledger) once(ctx context.Context, s session, e Event, handle func() error) error {
	if err := l.claim(ctx, s, e); err != nil {
		return err
	}
	if err := handle(); err != nil {
		return err
	}
	return l.completeClaim(ctx, s, e)
}

// claim reserves the event for this transaction, or returns why it cannot.
func (l *ledger) claim(ctx context.Context, s session, e Event) error {
	status := "COMPLETED" // not visible before the commit, when it is true
	if l.opts.Strategy == Advisory {
		status = "PROCESSING"
		var locked bool
		if err := s.scan(ctx, &locked, lockStatement, lockKey(l.opts.Consumer, e.ID), idleLimit(ctx)); err != nil {
			return ofLedger(fmt.Errorf("inbox: lock the event: %w", err))
		}
		if !locked {
			return ErrContended
		}
	}
	inserted, err := s.exec(ctx, l.insert, l.opts.Consumer, e.ID, status, e.source(), idleLimit(ctx))
	switch {
	case err != nil:
		return ofClaim(ctx, "the event", err)
	case inserted == 1:
		return nil
	}
	return l.found(ctx, s, e)
}

// ofClaim marks the error of a claim. At the end of the time the claim waited for another delivery, or the database was
// slow. Reported as a failure of the event, the event would be dead-lettered.
func ofClaim(ctx context.Context, what string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, ErrLedger) {
		return fmt.Errorf("%w, and the time to wait for it is over: %w", ErrContended, err)
	}
	return ofLedger(fmt.Errorf("inbox: claim %s: %w", what, err))
}

// found returns the error for an event whose row exists. In Handle a row that is still PROCESSING does not belong to a
// running handler, whose row would not be visible.
func (l *ledger) found(ctx context.Context, s session, e Event) error {
	state, err := l.readState(ctx, s, e, 0)
	switch {
	case err != nil:
		return err
	case state == "completed":
		return ErrDuplicate
	}
	return ErrUnfinished
}

// readState returns the state of the event's row: completed, fresh, or stale if it was claimed longer ago than age.
func (l *ledger) readState(ctx context.Context, s session, e Event, age time.Duration) (state string, err error) {
	err = s.scan(ctx, &state, l.state, l.opts.Consumer, e.ID, age.Microseconds())
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrContended // deleted in between: the next delivery claims it
	}
	if err != nil {
		return "", ofLedger(fmt.Errorf("inbox: read the event's row: %w", err))
	}
	return state, nil
}

// completeClaim marks the claim as completed if the claim itself did not.
func (l *ledger) completeClaim(ctx context.Context, s session, e Event) error {
	if l.opts.Strategy != Advisory {
		return nil
	}
	updated, err := s.exec(ctx, l.complete, l.opts.Consumer, e.ID)
	if err != nil {
		return ofLedger(fmt.Errorf("inbox: complete the event: %w", err))
	}
	if updated != 1 {
		return fmt.Errorf("inbox: complete the event: its claim is %d rows of the ledger; "+
			"has the handler ended the transaction, or changed the ledger?", updated)
	}
	return nil
}

// lockKey returns the key of an event's advisory lock: the first 8 bytes of SHA-256. NUL separates the two texts,
// because neither can contain it.
func lockKey(consumer, eventID string) int64 {
	sum := sha256.Sum256([]byte(consumer + "\x00" + eventID))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
