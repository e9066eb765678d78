package polling

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Channel is the channel that the trigger notifies, without a payload: Postgres keeps one of equal notifications of a
// transaction.
const Channel = "cdc_outbox"

const (
	firstPause = 5 * time.Millisecond
	// quietPause is how often the table is looked at while notifications arrive: one may get lost in a failover.
	quietPause = 2 * time.Second
	// listenTest is how long the listener's own notification may take to arrive.
	listenTest = 3 * time.Second
	// listenAgain is the pause before the next try if the notification did not arrive.
	listenAgain = time.Minute
)

// idle waits until there may be work. One worker looks on a clock, less and less often up to the interval; the others
// wait until a worker finds more than it can take.
func (r *Relay) idle(ctx context.Context) {
	select {
	case <-r.wake:
	case <-r.stopping:
	case <-ctx.Done():
	case <-r.scout:
		r.keepWatch(ctx)
		r.scout <- struct{}{}
	}
}

func (r *Relay) keepWatch(ctx context.Context) {
	longest := r.cfg.Interval
	if r.listening.Load() {
		longest = max(longest, quietPause)
	}
	if r.found.Swap(false) {
		r.pause = firstPause
	} else {
		r.pause = min(2*max(r.pause, firstPause), longest)
	}
	// A tenth to and fro, so that several processes do not look at the same moment for ever.
	timer := time.NewTimer(r.pause + time.Duration((rand.Float64()-0.5)*0.2*float64(r.pause)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-r.stopping:
	case <-ctx.Done():
	}
}

// Kick reports that rows were committed. A kick that no worker waits for is kept for the next one that finds
// nothing to do. It never blocks, and is safe for concurrent use.
func (r *Relay) Kick() { r.signal() }

// signal wakes one worker, if one is idle.
func (r *Relay) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// listen wakes a worker at each notification, on a connection of its own. It ends with its context.
func (r *Relay) listen(ctx context.Context) error {
	again := newRetry()
	for ctx.Err() == nil {
		err := r.listenOnce(ctx, again)
		r.listening.Store(false)
		if ctx.Err() != nil {
			break
		}
		if err == nil { // its own notification got lost
			r.log.Warn("notifications do not arrive, as through a transaction pooler; checking the table every "+
				"polling.interval instead",
				zap.Duration(logkey.Interval, r.cfg.Interval))
			select {
			case <-ctx.Done():
			case <-time.After(listenAgain):
			}
			continue
		}
		r.log.Debug("the listening connection is lost", telemetry.ErrorFields(err)...)
		again.wait(ctx, nil)
	}
	return nil //nolint:nilerr // it ends with its context
}

// listenOnce listens until the connection breaks. It returns nil if this process's own notification does not arrive.
func (r *Relay) listenOnce(ctx context.Context, again *retry) error {
	dsn, err := r.cfg.DSN()
	if err != nil {
		return err
	}
	conn, err := postgres.Open(ctx, dsn, postgres.ConnectOptions{
		Application: sessionName + " listener", Unprepared: true, Listens: true, Dial: r.cfg.Dial,
	})
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	if _, err := conn.PgConn().Exec(ctx, "LISTEN "+Channel).ReadAll(); err != nil {
		return postgres.QueryFault("channel "+Channel, err)
	}
	heard, err := r.hearsItself(ctx, conn, dsn)
	if err != nil || !heard {
		return err
	}
	again.reset()
	r.listening.Store(true)
	r.log.Info("listening for notifications", zap.String(logkey.Channel, Channel))
	for {
		r.signal() // also for rows committed before
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return &fault.Error{Kind: fault.Retry, Object: "channel " + Channel, Err: err}
		}
	}
}

// hearsItself notifies over another connection. Through a transaction pooler LISTEN is accepted, and holds for a
// session that this connection leaves with the statement's end; a writer's notification may still come with that end.
func (r *Relay) hearsItself(ctx context.Context, conn *pgx.Conn, dsn string) (bool, error) {
	other, err := r.cfg.setup().connect(ctx, dsn, sessionName+" listener")
	if err != nil {
		return false, err
	}
	defer postgres.CloseConn(other)
	own := strconv.FormatUint(rand.Uint64(), 36)
	if _, err := other.PgConn().Exec(ctx, "NOTIFY "+Channel+", "+identifier.QuoteLiteral(own)).ReadAll(); err != nil {
		return false, postgres.QueryFault("channel "+Channel, err)
	}
	limited, cancel := context.WithTimeout(ctx, listenTest)
	defer cancel()
	for {
		heard, err := conn.WaitForNotification(limited)
		switch {
		case err == nil && heard.Payload == own:
			return true, nil
		case err == nil:
		case limited.Err() != nil && ctx.Err() == nil:
			return false, nil
		default:
			return false, err
		}
	}
}
