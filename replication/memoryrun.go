package replication

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

const (
	// memoryInterval is how often what is confirmed is written down, while it moves.
	memoryInterval = time.Second
	// memoryFirst is when it begins, growing from there: a process that is killed again and again has to get on all the same.
	memoryFirst = 50 * time.Millisecond
	// memorySlowest is how often it is tried while it fails.
	memorySlowest = 10 * time.Second
	// memoryRest is how long WAL of less than a step waits, doubled with each time it was written down. It cannot wait for
	// ever: restart_lsn moves only when a slot confirms a running-xacts record (src/backend/replication/logical/snapbuild.c),
	// and in an idle cluster the one that would let go of all the WAL before it comes up to 25 s after the last commit
	// (LOG_SNAPSHOT_INTERVAL_MS, and the background writer's hibernation) and is the last for long.
	memoryRest = 4 * time.Second
)

// rest is how long WAL that is hardly any has to wait.
type rest struct {
	wait time.Duration
	last time.Time // when something was written down
}

// kept begins the next rest, a longer one where nothing but a little WAL came.
func (r *rest) kept(now time.Time, little bool) {
	if r.last = now; little {
		r.wait *= 2
	} else {
		r.wait = memoryRest
	}
}

// due tells whether there is something to be written down, and whether that is but a little WAL.
func (m *memory) due(confirmed, row lsn.LSN, now time.Time, r rest) (due, little bool) {
	kept := lsn.LSN(m.kept.Load())
	if confirmed <= kept {
		return false, false
	}
	little = row <= kept && confirmed-kept <= postgres.CheckpointStep
	return !little || now.Sub(r.last) >= r.wait, little
}

// run writes down what is confirmed for as long as the stream lives.
func (m *memory) run(ctx context.Context, s *Stream) {
	timer := time.NewTimer(memoryFirst)
	defer timer.Stop()
	r := rest{wait: memoryRest, last: time.Now()}
	for interval := memoryFirst; ; timer.Reset(interval) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if interval < memoryInterval {
			interval = min(2*interval, memoryInterval)
		}
		confirmed := s.cfg.Confirmed()
		due, little := m.due(confirmed, lsn.LSN(s.lastRow.Load()), time.Now(), r)
		if !due {
			if little && m.sentAway(ctx) {
				s.letGo()
				return
			}
			continue
		}
		err := m.keep(ctx, confirmed)
		s.status.confirmed(m.limit(confirmed))
		switch {
		case err == nil:
			m.succeeded(confirmed)
			r.kept(time.Now(), little)
			interval = min(interval, memoryInterval)
		case m.nearShutsDown(err):
			s.letGo()
			return
		case ctx.Err() == nil:
			m.failed(err)
			interval = min(2*interval, memorySlowest)
		}
	}
}
