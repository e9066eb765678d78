package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrCleanedUp means that CleanUp took an attempt for abandoned while it was under way. Nothing was written: deliver
// the event again. CleanUp's age has to be longer than an attempt takes.
var ErrCleanedUp = errors.New("inbox: the attempt was cleaned up before it was published")

// Attempt is Handle for an effect beside the database that can be prepared under a name of its own and is of no
// consequence before it is published: a file, an object in a store, a draft in another system.
//
// It registers an attempt and commits that. Then it calls prepare, which makes the effect under the attempt's name, a
// UUID. Then it claims the event, removes the registration and calls publish, all in one transaction: publish writes
// the name to where readers find it. So each event is published once, and what is published is complete. If prepare or
// publish fails, if the process dies, or if another delivery is first, the attempt stays registered, and CleanUp
// removes what it has prepared.
//
// It returns what Handle returns; ErrDuplicate before prepare is called for an event that was handled before; and
// ErrCleanedUp. It needs the table of AttemptsSchema.
func (in *Inbox) Attempt(
	ctx context.Context, e Event, prepare func(ctx context.Context, attempt string) error,
	publish func(ctx context.Context, tx pgx.Tx, attempt string) error,
) error {
	return in.attempt(ctx, in, e, prepare, func(attempt string) error {
		return in.Handle(ctx, e, func(ctx context.Context, tx pgx.Tx) error {
			if err := in.settleAttempt(ctx, &pgxSession{tx: tx}, attempt); err != nil {
				return err
			}
			return publish(ctx, tx, attempt)
		})
	})
}

// Attempt is Inbox.Attempt for database/sql.
func (in *SQL) Attempt(
	ctx context.Context, e Event, prepare func(ctx context.Context, attempt string) error,
	publish func(ctx context.Context, tx *sql.Tx, attempt string) error,
) error {
	return in.attempt(ctx, in, e, prepare, func(attempt string) error {
		return in.Handle(ctx, e, func(ctx context.Context, tx *sql.Tx) error {
			if err := in.settleAttempt(ctx, sqlSession{tx}, attempt); err != nil {
				return err
			}
			return publish(ctx, tx, attempt)
		})
	})
}

// CleanUp removes what attempts of this consumer have prepared that began longer than age ago and were not published,
// at most a thousand of them, and returns how many. Run it regularly; concurrent calls do no harm.
//
// Nothing that was published, or that still can be, is removed, whatever the age is. age has to be longer than an
// attempt takes, so that none fails with ErrCleanedUp. remove is called once more when another age is over, for what a
// process has prepared that was frozen meanwhile, so it must succeed for what was removed before or never made.
func (in *Inbox) CleanUp(
	ctx context.Context, age time.Duration, remove func(ctx context.Context, attempt string) error,
) (removed int, err error) {
	return in.cleanUp(ctx, in, age, remove)
}

// CleanUp is Inbox.CleanUp.
func (in *SQL) CleanUp(
	ctx context.Context, age time.Duration, remove func(ctx context.Context, attempt string) error,
) (removed int, err error) {
	return in.cleanUp(ctx, in, age, remove)
}

// attempts has the statements about attempts. A row is an attempt that was not published. Its removal is decided by an
// UPDATE that is committed before anything is removed, and publishing deletes the row unless that was decided: the
// second one waits for the row, and finds out. The row is kept until its process has certainly noticed.
type attempts struct {
	register, settle, doom, forget string
}

func (o Options) attempts() attempts {
	table := o.attemptsTable()
	return attempts{
		register: `INSERT INTO ` + table + ` (consumer, event_id)
SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM ` + o.table() + `
	WHERE consumer = $1 AND event_id = $2 AND status = 'COMPLETED') RETURNING attempt::text`,
		settle: `DELETE FROM ` + table + ` WHERE attempt = $1::uuid AND doomed_at IS NULL`,
		doom: `UPDATE ` + table + ` SET doomed_at = coalesce(doomed_at, pg_catalog.now())
WHERE attempt = ANY (ARRAY(SELECT attempt FROM ` + table + `
WHERE consumer = $1 AND coalesce(doomed_at, begun_at) < pg_catalog.now() - $2::float8 * interval '1 microsecond'
ORDER BY doomed_at NULLS FIRST LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING attempt::text`,
		forget: `DELETE FROM ` + table + ` WHERE attempt = $1::uuid
AND doomed_at < pg_catalog.now() - $2::float8 * interval '1 microsecond'`,
	}
}

// AttemptsSchema returns the SQL that creates the table for Attempt beside the ledger, if it does not exist. Its name
// is the ledger's with "_attempts" after it. Of the options only Schema and Table are used.
func AttemptsSchema(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('cdc-outbox inbox.Schema')::bigint);
CREATE TABLE IF NOT EXISTS %s (
    attempt   uuid             PRIMARY KEY DEFAULT pg_catalog.gen_random_uuid(),
    consumer  text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND %d),
    event_id  text COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND %d),
    begun_at  timestamptz      NOT NULL DEFAULT now(),
    doomed_at timestamptz
);
`, opts.attemptsTable(), maxConsumer, maxEventID), nil
}

func (o Options) attemptsTable() string {
	o.Table = o.suffixed("_attempts")
	return o.table()
}

func (l *ledger) attempt(
	ctx context.Context, t transactor, e Event, prepare func(ctx context.Context, attempt string) error,
	publish func(attempt string) error,
) error {
	attempt, err := l.registerAttempt(ctx, t, e)
	if err != nil {
		l.opts.Metrics.count(l.opts.Consumer, err)
		return err
	}
	if err := prepare(ctx, attempt); err != nil {
		l.opts.Metrics.count(l.opts.Consumer, err)
		return err
	}
	return publish(attempt)
}

func (l *ledger) registerAttempt(ctx context.Context, t transactor, e Event) (attempt string, err error) {
	if err := e.validate(); err != nil {
		return "", err
	}
	err = t.inSession(ctx, func(s session) error {
		return s.scan(ctx, &attempt, l.register, l.opts.Consumer, e.ID)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", ErrDuplicate
	case err != nil:
		return "", ofLedger(fmt.Errorf("inbox: register the attempt: %w", err))
	}
	return attempt, nil
}

// settleAttempt is part of the transaction that publishes.
func (l *ledger) settleAttempt(ctx context.Context, s session, attempt string) error {
	deleted, err := s.exec(ctx, l.settle, attempt)
	switch {
	case err != nil:
		return ofLedger(fmt.Errorf("inbox: end the attempt: %w", err))
	case deleted != 1:
		return ErrCleanedUp
	}
	return nil
}

// cleanUpBatch is how many attempts are removed at most. A second removal comes after first ones.
const cleanUpBatch = 1000

func (l *ledger) cleanUp(
	ctx context.Context, t transactor, age time.Duration, remove func(ctx context.Context, attempt string) error,
) (removed int, err error) {
	if age < 0 {
		return 0, errors.New("inbox: the age of attempts must not be negative")
	}
	var doomed []string
	if err := t.inSession(ctx, func(s session) (err error) {
		doomed, err = s.texts(ctx, l.doom, l.opts.Consumer, age.Microseconds(), cleanUpBatch)
		return err
	}); err != nil {
		return 0, ofLedger(fmt.Errorf("inbox: find abandoned attempts: %w", err))
	}
	var failed []string
	for _, attempt := range doomed {
		if err = remove(ctx, attempt); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %s", attempt, err))
			continue
		}
		if err := t.inSession(ctx, func(s session) error {
			_, err := s.exec(ctx, l.forget, attempt, age.Microseconds())
			return err
		}); err != nil {
			return removed, ofLedger(fmt.Errorf("inbox: forget the attempt %s: %w", attempt, err))
		}
		removed++
	}
	if len(failed) > 0 {
		return removed, fmt.Errorf("inbox: %d attempts could not be removed, and will be again: %s", len(failed),
			strings.Join(failed[:min(len(failed), 5)], "; "))
	}
	return removed, nil
}
