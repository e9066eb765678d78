package connector

import (
	"fmt"
	"math"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/offsets"
)

// everything is a position that lies after all that is committed.
const everything = offsets.LSN(math.MaxUint64)

// awaitStandbys waits until the standbys that may be promoted have the transaction, before anything of it is handed
// out. It ends with the stream, which brings the transaction again, and with a stop, which leaves it to the next start.
// A transaction that a broken stream cut short has passed already.
func (r *reader) awaitStandbys(commit offsets.LSN, committed time.Time) error {
	g := r.c.cfg.Standbys
	if g == nil || r.tracker.Open() || g.Passed(commit) {
		return nil
	}
	s := r.c.currentStream()
	r.c.producer.Flush()
	passed := g.Ask(commit, committed)
	defer g.Withdraw()
	for {
		select {
		case <-passed:
			return nil
		case <-r.c.stopping:
			return errStopping
		case <-r.c.life.Done():
			return r.c.life.Err()
		case err := <-r.c.ended:
			return err
		case <-s.Broken():
			_, err := s.Receive()
			return err
		case <-g.Elsewhere():
			if err := r.stillHolds(s); err != nil {
				return err
			}
		}
	}
}

// stillHolds asks the stream's server whether its session has the slot. The stream itself notices a dead server only
// while it is read from.
func (r *reader) stillHolds(s stream) error {
	ctx, cancel := r.whileOpen(s)
	defer cancel()
	return r.ended(s, s.Holds(ctx))
}

// standbyWait is for how long publishing has waited for standbys, 0 if it does not, and why.
func (c *Connector) standbyWait(now time.Time) (time.Duration, string) {
	if g := c.cfg.Standbys; g != nil {
		if since, why, ok := g.Held(); ok {
			age := now.Sub(since)
			return age, fmt.Sprintf("nothing was published for %s: %s", human.Duration(age), why)
		}
	}
	return 0, ""
}

// standbyWaits lists the waits for standbys, for the status.
func (c *Connector) standbyWaits() []fault.Wait {
	if c.cfg.Standbys == nil {
		return nil
	}
	return c.cfg.Standbys.Waits()
}

// heldTransaction is the commit time of the transaction that waits for standbys.
func (c *Connector) heldTransaction() (committed time.Time, ok bool) {
	if c.cfg.Standbys == nil {
		return committed, false
	}
	return c.cfg.Standbys.Committed()
}
