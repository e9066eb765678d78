package kafka

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// lose ends the session at an answer that says that our sequence, epoch or transaction is lost.
//
// With a transactional id the coordinator raises the epoch both when another instance takes over and when it aborts a
// transaction that was open for too long (TransactionStateManager.timedOutTransactions), and does not say which. It
// counts as another instance unless our own transaction may have timed out, or the id has expired. A Begin follows in
// either case, for the instance that holds the source, and reads the position that was committed last.
func (p *Producer) lose(object string, cause wire.Verdict) {
	ousted := cause.Code == wire.InvalidProducerEpoch || cause.Code == wire.ProducerFenced
	if p.tx != nil && ousted && !p.tx.timedOut() {
		p.fencedBy(cause.Name + " from " + object)
		return
	}
	if cause.Action == wire.Renew && !p.own.fences() {
		p.id = noIdentity
	}
	p.giveUp(object, cause.Name)
}

// giveUp ends the session for a reason that has nothing to do with other producers.
func (p *Producer) giveUp(object, why string) {
	if p.ended == nil {
		p.metrics.epochBumps.Inc()
	}
	p.end(fmt.Errorf("%w: %s: %s", sink.ErrSessionOver, object, why))
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
