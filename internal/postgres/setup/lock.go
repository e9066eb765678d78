package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Setups of one slot in one database are serialized by an advisory lock of the session. Publication and slot are read
// one after the other, and another process may be between creating the two: only under the lock is "one there, one
// missing" a verdict.

// lockKey is the text whose hash is the lock's key.
func lockKey(cfg Config) string { return "cdc-outbox setup of slot " + cfg.Slot }

// awaitTurn returns the state of a setup that is complete, with no unlock, or the state under the lock. It looks again
// before each try. A process that has the lock may be frozen or cut off, and the server learns that late or never; a
// process that has nothing to set up does not wait for it. The lock is tried rather than waited for, so that a waiting
// session holds no snapshot. SlotWait bounds the wait.
func awaitTurn(ctx context.Context, s servers, cfg Config) (st state, unlock func(), err error) {
	waitCtx, cancel := context.WithTimeout(ctx, cfg.SlotWait)
	defer cancel()
	var busy, named bool // another process has the lock, as of the last answer; it was looked for
	began := time.Now()
	for {
		if st, err = s.readState(waitCtx, cfg); err == nil && st.complete(cfg) {
			return st, nil, nil
		}
		got := false
		if err == nil {
			got, err = tryLock(waitCtx, s.Conn, cfg)
		}
		switch {
		case got:
			if st, err = s.readState(ctx, cfg); err != nil {
				freeLock(ctx, s.Conn, cfg)
				return st, nil, postgres.QueryFault("catalog", err)
			}
			return st, func() { freeLock(ctx, s.Conn, cfg) }, nil
		case err != nil && waitCtx.Err() == nil:
			return st, nil, postgres.QueryFault("setup", err)
		case err == nil:
			if !busy {
				busy = true
				cfg.Logger.Info("another process is setting up the slot, waiting for it",
					zap.String(logkey.Slot, cfg.Slot))
			}
			if h, ok := lockHolder(waitCtx, s, cfg); ok {
				cfg.Waits(h.fault)
				if !named && time.Since(began) > patience {
					named = true
					h.log(cfg)
				}
			}
		}
		select {
		case <-waitCtx.Done():
			return st, nil, turnFault(ctx, s, cfg, busy)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// patience is how long a setup may take before a setup that waits says for whom.
const patience = 2 * time.Second

// tryLock takes the lock if it is free. From then on the server ends a session that asks for nothing for longer than a
// setup ever does, because the session of a frozen process would delay every other setup. The setting came with
// Postgres 14. Before, the server's TCP keepalives have to find out.
func tryLock(ctx context.Context, conn *pgx.Conn, cfg Config) (got bool, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1::text, 0::bigint))`,
		lockKey(cfg)).Scan(&got)
	if err != nil || !got {
		return false, err
	}
	// The session is idle while a walsender makes the slot. SlotWait bounds that, and cancelling it takes some seconds.
	_, err = conn.Exec(ctx, setIdleLimit, fmt.Sprintf("%dms", (cfg.SlotWait+15*time.Second).Milliseconds()))
	if err != nil {
		freeLock(ctx, conn, cfg)
	}
	return err == nil, err
}

const setIdleLimit = `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'idle_session_timeout'`

// freeLock gives the lock back. Closing the connection does as well.
func freeLock(ctx context.Context, conn *pgx.Conn, cfg Config) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, setIdleLimit, "0"); err == nil {
		_, _ = conn.Exec(ctx, `SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended($1::text, 0::bigint))`,
			lockKey(cfg))
	}
}

// turnFault says what took so long. Without an answer about the lock it was the server.
func turnFault(ctx context.Context, s servers, cfg Config, busy bool) error {
	switch {
	case busy:
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if h, ok := lockHolder(ask, s, cfg); ok {
			return h.fault
		}
		return lockFault(cfg)
	case ctx.Err() != nil:
		return postgres.QueryFault("setup", context.Cause(ctx))
	}
	return &fault.Error{
		Kind: fault.Retry, Object: "catalog", Err: fmt.Errorf("it could not be read within %s", cfg.SlotWait),
		Next: "See which session holds a lock that keeps readers out, and how busy the server is.",
		Commands: []string{"SELECT l.relation::regclass::text AS relation, a.pid, a.state, now() - a.xact_start AS " +
			"age FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.granted AND l.mode = " +
			"'AccessExclusiveLock' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());"},
	}
}

func lockFault(cfg Config) error {
	return &fault.Error{
		Kind: fault.Retry, Object: cfg.SlotSubject(), Err: errors.New("another process is setting it up"),
		Next: "Wait for it, or see which session it is. If that is stuck, end it with pg_terminate_backend(pid).",
		Commands: []string{"SELECT a.pid, a.client_addr, a.state, now() - a.state_change AS since FROM pg_locks l " +
			"JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 " +
			"AND ((l.classid::bigint << 32) | l.objid::bigint) = pg_catalog.hashtextextended(" +
			identifier.QuoteLiteral(lockKey(cfg)) + "::text, 0::bigint);"},
	}
}
