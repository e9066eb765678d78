package connector

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// tenure is this instance's knowledge of its right to publish, which it has while it holds the slot and its epoch in
// Kafka is the highest. Only the goroutine of the source touches it, which is the reader's too.
type tenure struct {
	begun  bool // the epoch is ours, and was when the slot was
	lost   bool // the records handed out are given up, and the tracker has to be rewound
	pid    uint32
	before replication.Mark // of the timeline before, as far as this process has read it; until it is compared
	fences fights
}

// fights counts how often in a row another producer has fenced this one although no other session had the slot. An
// instance that was suspended in the middle of its Begin does that once. One that does it again and again reads another
// slot under the same name: that of a clone of this database.
type fights struct {
	inARow    int
	last      time.Time
	confirmed offsets.LSN // when the last one was fought
}

const (
	fightsTooMany = 5
	// fightsForget: a fight this far back has nothing to do with the present.
	fightsForget = 10 * time.Minute
	// fightsLull: a fenced instance begins again sooner than this. One that published for longer before it was fenced
	// has no other that fights for the epoch at the same time.
	fightsLull = 3 * time.Second
)

// lose gives up whatever is not acknowledged: all of it comes after the slot's position, so the instance that has the
// slot sends it, or this one again when it reads on from there. It is idempotent.
func (c *Connector) lose(why string) {
	r := &c.reader
	if r.lost {
		return
	}
	r.lost, r.begun = true, false
	dropped := c.giveUp()
	r.produced, r.sent, r.halted = 0, 0, nil
	c.mu.Lock()
	c.halted = nil
	c.mu.Unlock()
	c.log.Warn("gave up what kafka had not acknowledged; it is read again from the slot, or published by the instance "+
		"that holds the slot now",
		zap.String(logkey.Reason, why), zap.String(logkey.Slot, c.cfg.Replication.Slot),
		zap.Int(logkey.Records, dropped.Records))
}

// giveUp empties the producer.
func (c *Connector) giveUp() sink.Dropped {
	dropped := c.producer.Abandon()
	c.window.Release(dropped.Records, dropped.Bytes)
	c.over.Store(nil)
	select {
	case <-c.ended:
	default:
	}
	return dropped
}

// loseTo is for a state in which another session holds the slot. The session of a stream of ours that broke may hold it
// until the server notices.
func (c *Connector) loseTo(s replication.State) {
	if c.tracker.Load() == nil || c.reader.pid != 0 && uint32(s.HolderPID) == c.reader.pid {
		return
	}
	c.reader.fences.inARow = 0
	c.lose(fmt.Sprintf("backend %d holds the slot", s.HolderPID))
}

// onSessionEnd is called by the producer, with its lock, when another instance has fenced this one, or something has
// happened after which everything has to be read again. It brings the reader to the place where it looks.
func (c *Connector) onSessionEnd(why error) {
	c.over.Store(&why)
	select {
	case c.moved <- struct{}{}:
	default:
	}
	select {
	case c.ended <- why:
	default:
	}
	if s := c.currentStream(); s != nil {
		s.Interrupt()
	}
}

// sessionOver is why the session with Kafka is over, nil while it is not.
func (c *Connector) sessionOver() error {
	if why := c.over.Load(); why != nil {
		return *why
	}
	return nil
}

// beginAgain ends a stream at the end of a session that no other instance has caused: the next stream brings everything
// that Kafka has not acknowledged, for a new session.
func (r *reader) beginAgain(why error) error {
	c := r.c
	if c.isStopping() {
		c.log.Info("stopped; the next start sends what was not acknowledged")
		return nil
	}
	c.lose(why.Error())
	return &fault.Error{Kind: fault.Retry, Object: c.slot(), Err: why}
}

// fencedOff ends a stream whose rows Kafka does not take from this instance. If the slot is ours all the same, the
// next stream begins again; if it is not, it waits for the slot.
func (r *reader) fencedOff(s stream) error {
	c := r.c
	if c.isStopping() {
		c.log.Info("stopped; another instance publishes what was not acknowledged")
		return nil
	}
	c.lose("another instance has fenced this one in kafka")
	ours := s.Holds(c.life) == nil
	if n := r.fences.count(ours, c.confirmed(), time.Now()); n >= fightsTooMany {
		return &fault.Error{
			Kind: fault.Operator, Object: c.transactionalID(),
			Err: fmt.Errorf("fenced %d times in a row by another producer, although this instance held %s all the "+
				"time: a connector on a copy of this database uses the same Kafka cluster", n, c.slot()),
			Next: "Nothing is lost. Stop the connector that reads the copy, or give its slot another name " +
				"(postgres.slot), which its transactional id in Kafka follows. Then start this one again.",
		}
	}
	return &fault.Error{
		Kind: fault.Retry, Object: c.slot(), Err: errors.New("another instance has fenced this one in Kafka"),
	}
}

// count returns how many fences in a row came while the slot was ours. Progress begins the row again.
func (f *fights) count(ours bool, confirmed offsets.LSN, now time.Time) int {
	since := now.Sub(f.last)
	if !ours || since > fightsForget || since > fightsLull && confirmed > f.confirmed {
		f.inARow = 0
	}
	if ours {
		f.inARow++
	}
	f.last, f.confirmed = now, confirmed
	return f.inARow
}

func (c *Connector) transactionalID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("transactional id %q", sink.SlotOwner(c.identity.SystemID, c.cfg.Replication.Slot).ID)
}
