package polling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// backlog counts in the index of the unpublished rows, which needs no more pages than the answer is large. The oldest
// is that of the lanes' first rows: within a lane the first by sequence.
func (s *statements) backlog() string {
	oldest := "NULL::float8"
	if ts := s.cfg.Columns.Timestamp; ts != "" {
		oldest = fmt.Sprintf(`(SELECT extract(epoch FROM clock_timestamp() - min(t.at))::float8
			FROM generate_series(0, %d) cdc_outbox_lane(l)
			CROSS JOIN LATERAL (SELECT %s::timestamptz AS at FROM %s WHERE %s AND %s = cdc_outbox_lane.l ORDER BY %s
			LIMIT 1) t)`,
			Lanes-1, quoted(ts), s.table.SQL(), s.unpublished(), s.lane(), s.sequence())
	}
	return fmt.Sprintf(`%s SELECT (SELECT count(*) FROM (SELECT FROM %s WHERE %s LIMIT %d) c), %s; COMMIT`,
		s.begin, s.table.SQL(), s.unpublished(), relay.MaxCounted, oldest)
}

// Look counts the rows that are not published yet, over all tables.
func Look(ctx context.Context, cfg Config) (b relay.Backlog, err error) {
	cfg.setDefaults()
	c := &connection{cfg: &cfg, made: func(bool) {}}
	defer c.close()
	b, err = countBacklog(ctx, c, &cfg)
	return b, orEnded(ctx, &cfg, err)
}

func countBacklog(ctx context.Context, c *connection, cfg *Config) (b relay.Backlog, err error) {
	b.At = time.Now().UTC()
	for _, t := range cfg.Tables {
		s := newStatements(cfg, t)
		err := c.run(ctx, s.object(), s.backlog(), func(_ []pgconn.FieldDescription, v [][]byte) error {
			n, err := strconv.ParseInt(string(v[0]), 10, 64)
			if err != nil {
				return err
			}
			b.Rows = min(b.Rows+n, relay.MaxCounted)
			if v[1] == nil {
				return nil
			}
			age, err := strconv.ParseFloat(string(v[1]), 64)
			if age = max(0, age); b.Oldest == nil || age > *b.Oldest {
				b.Oldest = &age
			}
			return err
		})
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

const (
	// verifyEvery is how often tables and index are looked at again.
	verifyEvery = time.Minute
	// haltedEvery is how often it is asked whether the rows that are halted at are still there. Every process that
	// polls halts at such a row, and one of them ends the halt.
	haltedEvery = time.Second
)

// watchTables looks at the backlog and at the rows that are halted at, and now and then whether tables and index are
// still as they have to be. A fault that an operator has to fix ends the process when it is found twice in a row: once
// may be a migration that is not finished.
func (r *Relay) watchTables(ctx context.Context) error {
	c := &connection{cfg: &r.cfg, name: sessionOf(r.cfg.Tables), made: func(bool) {}, verified: true}
	defer c.close()
	tick := time.NewTicker(r.cfg.LookEvery)
	defer tick.Stop()
	halted := time.NewTicker(min(r.cfg.LookEvery, haltedEvery))
	defer halted.Stop()
	verified, wrong := time.Now(), false
	for {
		if b, err := countBacklog(ctx, c, &r.cfg); err == nil {
			r.latest.Store(&b)
		}
		r.lookAtLocks(ctx, c)
		if time.Since(verified) > verifyEvery || wrong {
			verified = time.Now()
			err := r.verify(ctx)
			var refused *pgconn.PgError
			found := err != nil && fault.KindOf(err) == fault.Operator && !errors.As(err, &refused)
			if found && wrong {
				return err
			}
			if wrong = found; found {
				r.log.Warn("outbox is not as polling needs it; checking once more before stopping",
					telemetry.ErrorFields(err)...)
			}
		}
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return nil
			case <-halted.C:
				r.lookAtHalted(ctx, c)
			case <-tick.C:
				due = true
			}
		}
	}
}

// lookAtHalted forgets rows that are over, whichever process published, passed or deleted them: a lane without rows is
// never claimed. Every lookAgain it has the lanes of the others tried again.
func (r *Relay) lookAtHalted(ctx context.Context, c *connection) {
	for _, s := range r.sources {
		s.mu.Lock()
		halted := slices.Collect(maps.Values(s.halted))
		s.mu.Unlock()
		if len(halted) == 0 {
			continue
		}
		there, err := s.holds(ctx, c, halted)
		s.mu.Lock()
		for _, h := range halted {
			switch {
			case s.halted[h.lane] != h:
			case err == nil && !there[h.lane]:
				s.goOn(r, h.lane)
				r.signal()
			case time.Since(h.at) >= r.again:
				s.lanes.wake(h.lane)
				r.signal()
			}
		}
		s.mu.Unlock()
	}
}

// holds returns the lanes whose row that is halted at is still there, unpublished.
func (s *source) holds(ctx context.Context, c *connection, halted []*halt) (map[int]bool, error) {
	there := map[int]bool{}
	err := c.run(ctx, s.object(), s.begin+s.stillThere(halted)+"; COMMIT",
		func(_ []pgconn.FieldDescription, v [][]byte) error {
			lane, err := strconv.Atoi(string(v[0]))
			there[lane] = true
			return err
		})
	return there, err
}
