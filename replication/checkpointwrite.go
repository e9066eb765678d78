package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

const (
	// storeTimeout bounds one attempt to write a position down, connecting included.
	storeTimeout = 5 * time.Second
	// storeStatement bounds the statement on the server, so an attempt that was given up leaves nothing running there.
	storeStatement = storeTimeout - time.Second
	// replayPoll is how often a standby is asked whether it has replayed the write on the primary.
	replayPoll = 50 * time.Millisecond
)

// farError is one of the primary's, while the slot is on a standby.
type farError struct{ error }

func (e *farError) Error() string { return "on the primary: " + e.error.Error() }
func (e *farError) Unwrap() error { return e.error }

// nearShutsDown: a primary that shuts down is no reason to leave its standby.
func (cp *checkpoint) nearShutsDown(err error) bool {
	var far *farError
	return !errors.As(err, &far) && shuttingDown(err)
}

// store writes a position down. It never goes back, and another timeline's reader is not disturbed. A nil error says
// that the server of the slot has it.
func (cp *checkpoint) store(ctx context.Context, at lsn.LSN) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if cp.far {
		return blamed(ctx, cp.primary, cp.cfg.Checkpoint, cp.storeFar(ctx, at))
	}
	return blamed(ctx, cp.near, cp.cfg.Checkpoint, cp.storeNear(ctx, at))
}

// blamed adds to the error of a statement that waited for a lock whose lock it is.
func blamed(ctx context.Context, conn *pgx.Conn, table identifier.Table, err error) error {
	if !lockedOut(err) || conn == nil || conn.IsClosed() {
		return err
	}
	if by, lerr := postgres.LookupBlocker(ctx, conn, table); lerr == nil && by != nil {
		return &postgres.Blocked{By: by, Err: err}
	}
	return err
}

// lockedOut reports whether a statement may have waited for a lock: statement_timeout, lock_not_available, deadlock.
func lockedOut(err error) bool {
	switch sqlstate.Of(err) {
	case sqlstate.QueryCanceled, "55P03", "40P01":
		return true
	}
	return false
}

func (cp *checkpoint) storeNear(ctx context.Context, at lsn.LSN) error {
	kept, err := cp.write(ctx, &cp.near, cp.cfg.DSN, at)
	if err != nil {
		return err
	}
	cp.stored.Store(max(cp.stored.Load(), uint64(kept)))
	return nil
}

// write puts the position into the row and returns the row's position then. A connection that was left alone for long
// may be dead, so one that does not answer is replaced once.
func (cp *checkpoint) write(ctx context.Context, conn **pgx.Conn, dsn func() (string, error),
	at lsn.LSN,
) (lsn.LSN, error) {
	fresh := *conn == nil || (*conn).IsClosed()
	if err := cp.open(ctx, conn, dsn); err != nil {
		return 0, err
	}
	kept, err := cp.update(ctx, *conn, at)
	if err != nil && !fresh && ctx.Err() == nil && (*conn).IsClosed() && !shuttingDown(err) {
		return cp.write(ctx, conn, dsn, at)
	}
	return kept, err
}

// update writes the row. The stored position is asked for rather than assumed: a trigger may have changed it. A row
// that was deleted is begun again; a row of another cluster or timeline is not ours, nor any row once the slot is not.
func (cp *checkpoint) update(ctx context.Context, conn *pgx.Conn, position lsn.LSN) (lsn.LSN, error) {
	var text string
	var at time.Time
	writes := int64(0)
	sets, column, value, back, where := "", "", "", "0::bigint", ""
	args := []any{cp.cfg.Slot, position.String(), cp.id.SystemID, cp.id.Timeline}
	if cp.numbered { // the row of a server that was put back meanwhile is not touched
		sets, where = ", writes = writes + 1", " AND writes >= $5::bigint"
		column, value, back = ", writes", ", $5::bigint + 1", "writes"
		args = append(args, cp.last.Writes)
	}
	back = " RETURNING position::text, updated_at, " + back
	held := "true" // if the row is far, storeFar has asked
	if !cp.far {
		held = fmt.Sprintf(`(SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = $1::text) = %d`,
			cp.id.BackendPID)
	}
	err := conn.QueryRow(ctx, fmt.Sprintf(`UPDATE %s SET position = greatest(position, $2::pg_lsn), updated_at = now()%s
		WHERE slot = $1::text AND system_id = $3::text AND timeline = $4::int%s AND %s%s`,
		cp.cfg.Checkpoint.SQL(), sets, where, held, back), args...).Scan(&text, &at, &writes)
	if errors.Is(err, pgx.ErrNoRows) {
		err = conn.QueryRow(ctx, fmt.Sprintf(`INSERT INTO %s (slot, system_id, timeline, position%s)
			SELECT $1::text, $3::text, $4::int, $2::pg_lsn%s WHERE %s ON CONFLICT (slot) DO NOTHING%s`,
			cp.cfg.Checkpoint.SQL(), column, value, held, back), args...).Scan(&text, &at, &writes)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errors.New("the stream's session does not hold the slot any more, or the slot's row is another " +
			"cluster's or timeline's, or of an older state of the server, or a trigger or policy keeps it from being " +
			"written")
	}
	if err != nil && cp.numbered && sqlstate.Of(err) == sqlstate.UndefinedColumn {
		cp.numbered = false // the column was dropped; or another one, which the next error names
		return cp.update(ctx, conn, position)
	}
	if err != nil {
		return 0, err
	}
	kept, err := lsn.Parse(text)
	if err == nil && kept < position {
		err = fmt.Errorf("%s was written and %s is there: a trigger changes it", position, kept)
	}
	if err == nil {
		cp.mark(kept, writes, at)
	}
	return kept, err
}

// beginFar takes the slot down on the primary.
func (cp *checkpoint) beginFar(ctx context.Context, position lsn.LSN) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := cp.open(ctx, &cp.primary, cp.cfg.PrimaryDSN)
	if err == nil && cp.last.SystemID == cp.id.SystemID {
		var row *postgres.Checkpoint
		if row, err = cp.readAgain(ctx, cp.primary); err == nil {
			if err := cp.compareOwn(row); err != nil {
				return err
			}
		}
	}
	if err == nil {
		_, err = cp.primary.PgConn().Exec(ctx, cp.upsertSQL(position)).ReadAll()
	}
	switch {
	case err == nil:
		cp.written = position
		return nil
	case sqlstate.Of(err) == sqlstate.ReadOnly:
		return cp.primaryFault(errors.New("the server there is read-only, a standby perhaps"))
	case sqlstate.Of(err) == "":
		return cp.primaryFault(err)
	}
	return cp.skip(ctx, err)
}

// primaryFault passes: the primary may be failing over.
func (cp *checkpoint) primaryFault(err error) error {
	f := &fault.Error{
		Kind: fault.Retry, Object: "postgres.primary_dsn",
		Err:  fmt.Errorf("the slot's position cannot be written down on the primary: %w", err),
		Next: "Name every host that may be the primary in postgres.primary_dsn, with target_session_attrs=read-write.",
	}
	var known *fault.Error
	if errors.As(err, &known) {
		f.Err = fmt.Errorf("the slot's position cannot be written down on the primary: %s: %w", known.Object, known.Err)
	}
	return f
}

// storeFar writes on the primary and waits until the slot's server has replayed it.
func (cp *checkpoint) storeFar(ctx context.Context, at lsn.LSN) error {
	for {
		recovering, err := cp.standbyState(ctx)
		switch {
		case err != nil:
			return err
		case !recovering:
			cp.far = false
			cp.last.Writes = 0 // the old primary's last writes may not have come along
			cp.cfg.Logger.Info("the standby was promoted, so the slot's position is written down there from now on")
			return cp.storeNear(ctx, at)
		case cp.stored.Load() >= uint64(at):
			return nil
		case cp.written < at:
			written, err := cp.write(ctx, &cp.primary, cp.cfg.PrimaryDSN, at)
			if err != nil {
				return &farError{err}
			}
			cp.written = written
		}
		select {
		case <-ctx.Done():
			return errors.New("the standby has not replayed what was written on the primary")
		case <-time.After(replayPoll):
		}
	}
}

// standbyState reads the row's position on the slot's server, and whether that server is still a standby.
func (cp *checkpoint) standbyState(ctx context.Context) (recovering bool, err error) {
	if err := cp.open(ctx, &cp.near, cp.cfg.DSN); err != nil {
		return false, err
	}
	var text *string
	var reader *int64
	err = cp.near.QueryRow(ctx,
		fmt.Sprintf(
			`SELECT pg_is_in_recovery(), (SELECT active_pid FROM pg_catalog.pg_replication_slots
				WHERE slot_name = $1::text),
		(SELECT position::text FROM %s WHERE slot = $1::text AND system_id = $2::text AND timeline = $3::int)`,
			cp.cfg.Checkpoint.SQL()),
		cp.cfg.Slot, cp.id.SystemID, cp.id.Timeline).Scan(&recovering, &reader, &text)
	if err != nil {
		return false, err
	}
	if reader == nil || *reader != int64(cp.id.BackendPID) {
		return false, errors.New("postgres.dsn leads to another server than the stream's now; name one standby there")
	}
	if text == nil {
		return recovering, nil // not replayed yet
	}
	kept, err := lsn.Parse(*text)
	if err == nil {
		cp.stored.Store(max(cp.stored.Load(), uint64(kept)))
	}
	return recovering, err
}

// serverShutsDown reports whether the server is shutting down. It ends every session before it writes its last records,
// and then waits until its walsenders' clients have confirmed those, which can be written down nowhere any more.
func (cp *checkpoint) serverShutsDown(ctx context.Context) bool {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := cp.open(ctx, &cp.near, cp.cfg.DSN); err != nil {
		return shuttingDown(err)
	}
	err := cp.near.Ping(ctx)
	if err != nil && cp.near.IsClosed() {
		err = cp.open(ctx, &cp.near, cp.cfg.DSN)
	}
	return shuttingDown(err)
}

// open makes sure that there is a connection.
func (cp *checkpoint) open(ctx context.Context, conn **pgx.Conn, dsn func() (string, error)) (err error) {
	if *conn == nil || (*conn).IsClosed() {
		*conn, err = cp.connect(ctx, dsn)
	}
	return err
}

// connect opens a connection that writes. A commit there waits for this disk, as the slot does, and for no standby.
func (cp *checkpoint) connect(ctx context.Context, dsn func() (string, error)) (*pgx.Conn, error) {
	text, err := dsn()
	if err != nil {
		return nil, errors.New("the connection string cannot be had")
	}
	pc, err := postgres.ParseConfig(text)
	if err != nil {
		return nil, postgres.DSNFault(text)
	}
	if cp.cfg.Dial != nil {
		pc.DialFunc = cp.cfg.Dial
	}
	delete(pc.RuntimeParams, "replication")
	pc.RuntimeParams["application_name"] = "cdc-outbox checkpoint"
	pc.RuntimeParams["synchronous_commit"] = "local"
	pc.RuntimeParams["default_transaction_read_only"] = "off"
	pc.RuntimeParams["lock_timeout"] = "0" // statement_timeout bounds that wait as well
	pc.RuntimeParams["statement_timeout"] = strconv.FormatInt(storeStatement.Milliseconds(), 10)
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, postgres.ConnectFault(pc, err)
	}
	if err := session.Override(ctx, conn.PgConn()); err != nil {
		postgres.CloseConn(conn)
		return nil, err
	}
	return conn, nil
}

// close ends the connections.
func (cp *checkpoint) close() {
	if cp == nil {
		return
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, conn := range []**pgx.Conn{&cp.near, &cp.primary} {
		if *conn != nil {
			postgres.CloseConn(*conn)
			*conn = nil
		}
	}
}
