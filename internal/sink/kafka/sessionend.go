package kafka

import (
	"errors"
	"fmt"
)

// ErrSessionOver is the error of Produce, Drain and Keep after an event that no repeat of the same bytes can heal, for
// example a topic that was made again with fewer partitions. The caller calls Abandon, Begin if it has an owner, and
// produces again whatever was not acknowledged. Some of that may be in the log already.
var ErrSessionOver = errors.New("the session with Kafka is over")

// giveUp ends the session for a reason that has nothing to do with other producers.
func (p *Producer) giveUp(object, why string) {
	p.end(fmt.Errorf("%w: %s: %s", ErrSessionOver, object, why))
}

// end ends the session. Nothing is sent from here on, and every call that waits returns the error. The records that are
// not acknowledged stay until Abandon.
func (p *Producer) end(why error) {
	if p.ended != nil {
		return
	}
	p.ended = why
	p.announce()
	if p.cfg.Ended != nil {
		p.cfg.Ended(why)
	}
}
