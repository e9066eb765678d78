package setup

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// walRate is how fast WAL is written.
type walRate struct {
	Average float64       // bytes a second since the statistics were reset
	Over    time.Duration // how long ago that was; 0: not known
	Present float64       // bytes a second just now; 0: not looked at
}

// walMark is a reading of how much WAL has been written.
type walMark struct {
	at    time.Time
	lsn   float64
	bytes float64 // by pg_stat_wal
}

// rateWindow is how long is looked for the present rate. Backends report to pg_stat_wal every second at most.
const rateWindow = 2 * time.Second

// lookupRate asks twice, a window apart. What cannot be had (a standby, a service without pg_stat_wal) stays zero.
func lookupRate(ctx context.Context, q postgres.Querier) walRate {
	first, average, over, err := markWAL(ctx, q)
	if err != nil {
		return walRate{}
	}
	r := walRate{Average: average, Over: over}
	timer := time.NewTimer(rateWindow)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return r
	case <-timer.C:
	}
	second, _, _, err := markWAL(ctx, q)
	if err != nil {
		return r
	}
	r.Present = first.rate(second)
	return r
}

// rate takes the smaller of two measures: a switch of WAL files makes the LSN jump, and a long statement is reported to
// the statistics all at once.
func (m walMark) rate(later walMark) float64 {
	seconds := later.at.Sub(m.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return max(min(later.lsn-m.lsn, later.bytes-m.bytes), 0) / seconds
}

func markWAL(ctx context.Context, q postgres.Querier) (m walMark, average float64, over time.Duration, err error) {
	var age float64
	err = q.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, wal_bytes::float8,
		coalesce(extract(epoch FROM clock_timestamp() - stats_reset), 0)::float8 FROM pg_catalog.pg_stat_wal`).
		Scan(&m.lsn, &m.bytes, &age)
	m.at = time.Now()
	if err != nil || age <= 0 {
		return m, 0, 0, err
	}
	return m, m.bytes / age, time.Duration(age * float64(time.Second)), nil
}
