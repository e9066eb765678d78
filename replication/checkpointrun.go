package replication

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

const (
	// checkpointInterval is how often the confirmed position is written down, while events move it. It is also how much
	// a process that is killed repeats at most, so it is short: ten small writes a second, each of one row in its page.
	checkpointInterval = 100 * time.Millisecond
	// foreignInterval is how often WAL without events is written down.
	foreignInterval = time.Second
	// checkpointFirst is when it begins, growing from there: a process that is killed again and again has to make
	// progress all the same.
	checkpointFirst = 50 * time.Millisecond
	// checkpointSlowest is how often it is tried while it fails.
	checkpointSlowest = 10 * time.Second
	// quietWait is how long WAL of less than a step waits, doubled with each time it was written down. It cannot wait
	// for ever: restart_lsn moves only when a slot confirms a running-xacts record
	// (src/backend/replication/logical/snapbuild.c), and in an idle cluster the record that would release all the WAL
	// before it comes up to 25 s after the last commit (LOG_SNAPSHOT_INTERVAL_MS, and the background writer's
	// hibernation) and is the last for long.
	quietWait = 4 * time.Second
)

// quietPace is how long WAL that is hardly any has to wait.
type quietPace struct {
	wait time.Duration
	last time.Time // when something was written down
}

// stored begins the next rest, a longer one if nothing but a little WAL came.
func (r *quietPace) stored(now time.Time, little bool) {
	if r.last = now; little {
		r.wait *= 2
	} else {
		r.wait = quietWait
	}
}

// due reports whether there is something to be written down, and whether that is but a little WAL.
func (cp *checkpoint) due(confirmed, row lsn.LSN, now time.Time, r quietPace) (due, little bool) {
	kept := lsn.LSN(cp.stored.Load())
	if confirmed <= kept {
		return false, false
	}
	if row > kept {
		return true, false
	}
	if little = confirmed-kept <= postgres.CheckpointStep; little {
		return now.Sub(r.last) >= r.wait, true
	}
	return now.Sub(r.last) >= foreignInterval, false
}

// run writes down the confirmed position for as long as the stream lives.
func (cp *checkpoint) run(ctx context.Context, s *Stream) {
	timer := time.NewTimer(checkpointFirst)
	defer timer.Stop()
	r := quietPace{wait: quietWait, last: time.Now()}
	looked := time.Now() // whether the server shuts down
	for interval := checkpointFirst; ; timer.Reset(interval) {
		select {
		case <-ctx.Done():
			return
		case <-s.broken: // the slot may be another instance's by now, and the row with it
			return
		case <-timer.C:
		}
		if interval < checkpointInterval {
			interval = min(2*interval, checkpointInterval)
		}
		confirmed := s.confirmed()
		now := time.Now()
		due, little := cp.due(confirmed, lsn.LSN(s.lastRow.Load()), now, r)
		if !due {
			if little && now.Sub(looked) >= foreignInterval {
				if looked = now; cp.serverShutsDown(ctx) {
					s.abandon()
					return
				}
			}
			continue
		}
		err := cp.store(ctx, confirmed)
		s.status.confirmed(cp.limit(confirmed))
		switch {
		case err == nil:
			cp.succeeded(confirmed)
			r.stored(time.Now(), little)
			interval = min(interval, checkpointInterval)
		case cp.nearShutsDown(err):
			s.abandon()
			return
		case ctx.Err() == nil:
			cp.failed(err)
			interval = min(2*interval, checkpointSlowest)
		}
	}
}
