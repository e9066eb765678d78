package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
)

// A lost slot is healed in the order in which a crash loses nothing:
//
//  1. earlier instances are fenced, and the slot is made again, beside an empty list that is marked as unfinished; it
//     exports its snapshot;
//  2. the gap is opened, and the new position accepted;
//  3. the rows of the gap are compared with the topics, while the snapshot is kept;
//  4. the list gets the rows of the snapshot that Kafka does not have, and loses the mark; later rows come
//     through the slot;
//  5. the connector publishes the list before it streams, and the list is dropped in the transaction that settles the
//     gap.
//
// A process that dies before 4 leaves a slot beside an unfinished list. Nothing was read from that slot, so the next
// process drops it and begins again; its gap continues the gap before.

// Absent are rows that Kafka does not have.
type Absent struct {
	IDs  [][]string // of the tables, in the order of Config.Tables
	Gaps []int64    // the numbers of the gaps whose rows were all compared
}

// Topics are where the rows are published to.
type Topics interface {
	// Fence keeps an earlier instance from publishing any more: it has lost its slot, and may not know that yet.
	Fence(ctx context.Context, systemID string) error
	// Absent finds the absent rows of the open gaps. An error of kind Operator is a refusal: the absence of a row would
	// prove nothing.
	Absent(ctx context.Context, open []gap.Gap) (Absent, error)
}

// NeedsHeal reports whether the slot is lost, or was while a heal was interrupted.
func NeedsHeal(ctx context.Context, dsn string, cfg Config) (needs bool, err error) {
	cfg = cfg.WithDefaults()
	err = withServers(ctx, dsn, cfg, func(s servers) error {
		h := heal{servers: s, cfg: cfg}
		needs, err = h.needed(ctx)
		return err
	})
	return needs, err
}

// HealSlot makes a lost slot again, and lists the rows that are to be published before it is read. It does nothing if
// the slot is not lost. Another process that heals it is a Retry.
func HealSlot(ctx context.Context, dsn string, cfg Config, topics Topics) error {
	cfg = cfg.WithDefaults()
	return withServer(ctx, dsn, cfg, func(s servers) error {
		h := heal{servers: s, cfg: cfg, topics: topics}
		if needs, err := h.needed(ctx); err != nil || !needs {
			return err
		}
		got, err := tryLock(ctx, s.Conn, cfg)
		if err != nil {
			return postgres.QueryFault("setup", err)
		}
		if !got {
			if holder, ok := lockHolder(ctx, s, cfg); ok {
				return holder.fault
			}
			return lockFault(cfg)
		}
		defer freeLock(ctx, s.Conn, cfg)
		if needs, err := h.needed(ctx); err != nil || !needs {
			return err // another process was faster
		}
		return h.run(ctx)
	})
}

// heal is a heal at work.
type heal struct {
	servers

	cfg    Config
	topics Topics
	st     state
	before SlotReport
}

// needed looks at the server. What it cannot judge is left to Ensure.
func (h *heal) needed(ctx context.Context) (bool, error) {
	var err error
	if h.st, err = h.readState(ctx, h.cfg); err != nil {
		return false, postgres.QueryFault("catalog", err)
	}
	st := &h.st
	if st.Server.InRecovery || !st.Publication.Exists || st.pending(h.cfg) ||
		h.cfg.ForeignSlot(st.Slot, st.Server.ServerFacts) != nil {
		return false, nil
	}
	interrupted := st.Snapshot.Unfinished && st.Snapshot.Heal && st.Slot.ActivePID == 0 && !st.readPastList()
	if st.Slot.Exists && !st.Slot.Invalidated() && !interrupted {
		return false, nil
	}
	if h.before, err = reportSlot(ctx, h.servers, h.cfg); err != nil {
		return false, err
	}
	kept, err := lsn.Parse(h.before.Remembered)
	now, nerr := lsn.Parse(h.before.CurrentLSN)
	// Otherwise the slot is new, or the server another one or an older state of it.
	return err == nil && nerr == nil && h.before.RememberedID == h.before.SystemID && kept <= now, nil
}

// readPastList reports whether the slot has moved since it was made for an unfinished list: it was read without it.
func (st *state) readPastList() bool {
	return st.Slot.Exists && st.Snapshot.Point != "" && st.Snapshot.Point != st.Slot.ConfirmedFlush.String()
}

// obstacle is what makes a heal impossible.
func (h *heal) obstacle() error {
	st := &h.st
	switch {
	case h.before.denied != nil:
		return h.before.denied
	case !st.MayList:
		return mayNotList(h.cfg, h.st)
	case !st.Gaps.Usable:
		return h.refused(fmt.Errorf("the table %s does not exist, or the role may not use it", h.cfg.Gaps()))
	case st.Snapshot.Exists && !st.Snapshot.Heal:
		return h.refused(errors.New("it was lost before the initial snapshot was published"))
	case st.Slot.Exists && st.Slot.Invalidated() && st.Snapshot.Exists:
		return h.refused(errors.New("it was lost again before the rows of its gap were published"))
	}
	return nil
}

// refused is the fault of a slot that an operator has to see to.
func (h *heal) refused(why error) error {
	reason, _ := fault.Split(why)
	return (&fault.Error{
		Kind: fault.Operator, Object: h.cfg.SlotSubject(),
		Err: fmt.Errorf("it is lost, and on_gap: heal does not heal it: %s", reason),
	}).With(postgres.ReplaceLost())
}

func (h *heal) run(ctx context.Context) error {
	if err := h.obstacle(); err != nil {
		return err
	}
	h.cfg.Logger.Warn("the slot is lost; it is made again, and the rows of its gap are compared with the topics",
		zap.String(logkey.Slot, h.cfg.Slot), zap.String(logkey.Confirmed, h.before.Remembered))
	// Before there is a slot that would keep WAL while Kafka cannot be reached.
	if err := h.alive(ctx, func(ctx context.Context) error {
		return h.topics.Fence(ctx, h.before.SystemID)
	}); err != nil {
		return err
	}
	if err := h.dropSlot(ctx, h.cfg); err != nil {
		return postgres.QueryFault(h.cfg.SlotSubject(), err)
	}
	h.cfg.fill = h.fill
	err := createSnapshotSlot(ctx, h.Conn, h.cfg, h.st.Server.Version)
	if err == nil {
		return nil
	}
	h.takeBack(ctx)
	if fault.KindOf(err) == fault.Operator && ctx.Err() == nil {
		return h.refused(err)
	}
	return err
}

// takeBack drops a slot that no process is going to read, and its list. Where it cannot, the next heal does.
func (h *heal) takeBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outsideLimit)
	defer cancel()
	if h.PgConn().TxStatus() != 'I' {
		_, _ = h.Exec(ctx, "ROLLBACK")
	}
	if h.dropSlot(ctx, h.cfg) == nil {
		_, _ = h.Exec(ctx, "DROP TABLE IF EXISTS "+snapshot.List(h.cfg.Objects).SQL())
	}
}

// fill opens the gap, compares, and lists the rows that Kafka does not have.
func (h *heal) fill(ctx context.Context, orders []string, exported string) error {
	now, err := reportSlot(ctx, h.servers, h.cfg)
	if err != nil {
		return err
	}
	if err := openGap(ctx, h.primary, h.cfg, h.before, now, gap.SlotRecreated); err != nil {
		return err
	}
	if err := now.accept(ctx, h.primary, h.cfg); err != nil {
		return err
	}
	open, err := gap.Of(h.cfg.Objects).Open(ctx, h.Conn)
	if err != nil {
		return postgres.QueryFault("table "+h.cfg.Gaps().String(), err)
	}
	var absent Absent
	if err := h.alive(ctx, func(ctx context.Context) (err error) {
		absent, err = h.topics.Absent(ctx, open)
		return err
	}); err != nil {
		return err
	}
	listed, err := h.list(ctx, orders, exported, absent)
	if err != nil {
		return postgres.QueryFault("table "+snapshot.List(h.cfg.Objects).String(), err)
	}
	h.cfg.Logger.Info("the slot was made again; the rows that Kafka does not have are published before it is read",
		zap.String(logkey.Slot, h.cfg.Slot), zap.String(logkey.LSN, now.ConfirmedFlushLSN),
		zap.Int64(logkey.Rows, listed))
	return nil
}

// alivePause is the time between two signs that this process has the setup lock. The server ends the session of a
// process that gives none.
const alivePause = 5 * time.Second

// alive calls do while the session shows that it is alive.
func (h *heal) alive(ctx context.Context, do func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		return do(ctx)
	})
	g.Go(func() error {
		tick := time.NewTicker(alivePause)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if _, err := h.Exec(ctx, "SELECT 1"); err != nil {
					return postgres.QueryFault("setup", err)
				}
			}
		}
	})
	return g.Wait()
}

// list lists the rows in one transaction, which sees what was committed before the slot's position.
func (h *heal) list(ctx context.Context, orders []string, exported string, absent Absent) (listed int64, err error) {
	list := snapshot.List(h.cfg.Objects)
	timed := ""
	if err := h.QueryRow(ctx, "SELECT current_setting('track_commit_timestamp')").Scan(&timed); err != nil {
		return 0, err
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	err = pgx.BeginTxFunc(ctx, h.Conn, options, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT "+identifier.QuoteLiteral(exported))
		if err != nil {
			return err
		}
		// The ids have negative numbers: of rows that this transaction does not see, the list gets none.
		var n int64
		for i, ids := range absent.IDs {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{list.Schema, list.Name}, []string{"n", "source", "id"},
				pgx.CopyFromSlice(len(ids), func(k int) ([]any, error) {
					n--
					return []any{n, int32(i), ids[k]}, nil
				}))
			if err != nil {
				return err
			}
			if err := h.listTable(ctx, tx, i, commitOrder(timed)+orders[i]); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %[1]s WHERE n < 0; ANALYZE %[1]s", list.SQL())); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+list.SQL()).Scan(&listed); err != nil {
			return err
		}
		mark := snapshot.Settlement{Missing: listed, Gaps: absent.Gaps}.Mark()
		_, err = tx.Exec(ctx, fmt.Sprintf("COMMENT ON TABLE %s IS %s", list.SQL(), identifier.QuoteLiteral(mark)))
		return err
	})
	return listed, err
}

// commitOrder begins the order of rows where the server keeps the time of each commit. An UPDATE of a row changes what
// it says.
func commitOrder(tracked string) string {
	if tracked != "on" {
		return ""
	}
	return "pg_catalog.pg_xact_commit_timestamp(xmin) NULLS FIRST, "
}

// listTable lists the rows of a table whose ids the list has with negative numbers.
func (h *heal) listTable(ctx context.Context, tx pgx.Tx, table int, order string) error {
	list, of, id := snapshot.List(h.cfg.Objects).SQL(), h.cfg.Tables[table], identifier.Quote(h.cfg.Columns.ID)
	info, err := postgres.LookupTable(ctx, tx, of)
	if err != nil {
		return err
	}
	sql := fmt.Sprintf(`INSERT INTO %[1]s SELECT (SELECT coalesce(max(n) FILTER (WHERE n > 0), 0) FROM %[1]s) +
			row_number() OVER (ORDER BY %[2]s), $1::int, %[3]s::text
		FROM %[4]s WHERE %[3]s IN (SELECT l.id::%[5]s FROM %[1]s l WHERE l.n < 0 AND l.source = $1::int)`,
		list, order, id, of.SQL(), info.CastType(h.cfg.Columns.ID))
	_, err = tx.Exec(ctx, sql, table)
	return err
}
