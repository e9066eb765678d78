package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Outside is where the connector keeps what it knows of the checkpoint beside the server: in Kafka.
type Outside interface {
	// Fetch returns what is kept for the slot of the cluster; the zero Mark for nothing.
	Fetch(ctx context.Context, systemID string) (postgres.Mark, error)
	// Accept replaces it, and the position up to which events are not published again. The connector starts at the slot
	// then.
	Accept(ctx context.Context, m postgres.Mark) error
}

// outsideLimit bounds one question to Kafka.
const outsideLimit = 10 * time.Second

// Kept is what Kafka has of the slot, as the report shows it.
type Kept struct {
	postgres.Mark `json:"-"`

	Writes    int64     `json:"writes"`
	Timeline  int32     `json:"timeline"`
	Published string    `json:"published_lsn"`
	At        time.Time `json:"at"`
}

func (r *SlotReport) lookupKept(ctx context.Context, cfg Config) {
	if cfg.Outside == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outsideLimit)
	defer cancel()
	m, err := cfg.Outside.Fetch(ctx, r.SystemID)
	switch {
	case err != nil:
		r.KeptError = err.Error()
	case m != postgres.Mark{}:
		r.Kept = &Kept{
			Mark: m, Writes: m.Writes, Timeline: m.Timeline, Published: m.Published.String(), At: m.At,
		}
	}
}

// acceptKept has Kafka go on from the slot, and returns the number that the checkpoint's row has to have then. Kafka
// comes first: until the row has the number, the connector refuses the server, and the acceptance can be repeated.
// Where Kafka cannot be asked nothing is known of its number, so the row keeps its own.
func (r *SlotReport) acceptKept(ctx context.Context, cfg Config) (int64, error) {
	if cfg.Outside == nil || r.KeptError != "" {
		return r.Writes, nil
	}
	writes := r.Writes + 1
	if r.Kept != nil {
		writes = max(writes, r.Kept.Writes+1)
	}
	position := r.acceptable(cfg)
	ctx, cancel := context.WithTimeout(ctx, outsideLimit)
	defer cancel()
	m := postgres.Mark{
		SystemID: r.SystemID, Timeline: r.Timeline, Writes: writes, Position: position, Published: max(position, 1) - 1,
		At: time.Now(),
	}
	if err := cfg.Outside.Accept(ctx, m); err != nil {
		return 0, &fault.Error{
			Kind: fault.Retry, Object: cfg.SlotSubject(), Err: fmt.Errorf("Kafka does not take the acceptance: "+
				"%w", err),
			Next:     "Nothing is accepted yet. See that Kafka can be reached, and accept the slot again.",
			Commands: []string{acceptCommand},
		}
	}
	return writes, nil
}

// acceptable is the position from which the connector goes on: the slot's, or the checkpoint's where the two agree and
// that is further.
func (r *SlotReport) acceptable(cfg Config) lsn.LSN {
	kept, err := lsn.Parse(r.Remembered)
	at := postgres.ServerPosition{SystemID: r.SystemID, Timeline: r.Timeline}
	at.WALEnd, _ = lsn.Parse(r.CurrentLSN) // 0 where there is none: not judged by it
	stored := postgres.Checkpoint{SystemID: r.RememberedID, Timeline: r.RememberedLine, Position: kept}
	if err != nil || stored.Timeline != at.Timeline || at.WALEnd == 0 || stored.Judge(cfg.Objects, at, r.info) != nil {
		return r.info.ConfirmedFlush
	}
	return max(kept, r.info.ConfirmedFlush)
}

// accept writes the slot's position into the checkpoint, and the number that Kafka has from now on.
func (r *SlotReport) accept(ctx context.Context, conn *pgx.Conn, cfg Config) error {
	writes, err := r.acceptKept(ctx, cfg)
	if err != nil {
		return err
	}
	args := []any{cfg.Slot, r.SystemID, r.Timeline, r.acceptable(cfg).String()}
	_, err = conn.Exec(ctx, acceptSQL(cfg, ", writes", ", $5::bigint", ", writes = greatest(t.writes, $5::bigint)"),
		append(args, writes)...)
	if sqlstate.Of(err) == sqlstate.UndefinedColumn { // of an earlier version
		_, err = conn.Exec(ctx, acceptSQL(cfg, "", "", ""), args...)
	}
	if err != nil && sqlstate.Of(err) != sqlstate.UndefinedTable {
		return postgres.QueryFault("table "+cfg.Checkpoint.String(), err)
	}
	return nil
}

func acceptSQL(cfg Config, column, value, set string) string {
	return fmt.Sprintf(`INSERT INTO %s AS t (slot, system_id, timeline, position%s)
			VALUES ($1::text, $2::text, $3::int, $4::pg_lsn%s)
		ON CONFLICT (slot) DO UPDATE SET system_id = $2::text, timeline = $3::int, position = $4::pg_lsn,
			updated_at = now()%s`, cfg.Checkpoint.SQL(), column, value, set)
}
