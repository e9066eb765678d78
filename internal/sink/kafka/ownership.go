package kafka

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// ownership is the producer's right to write for its owner: the transactional id, the coordinator that knows its
// epoch, and the epoch. It is used in both delivery modes; a producer without an owner has none.
//
// Without transactions the batches carry the producer id and epoch of the transactional id, and nothing else of a
// transaction. A leader refuses the batches of an older epoch in each partition in which it has seen a newer one
// (ProducerAppendInfo.checkProducerEpoch). So an instance that took over is safe from what an earlier one still sends
// after its own first batch in a partition, and what lands before is in front of what it will write: all that the
// earlier one had not acknowledged comes after the position at which the later one began.
//
// Epochs belong to the coordinator. Begin takes one above all others. Every other one is taken with our own id and
// epoch (KIP-360), which the coordinator refuses when another producer has begun meanwhile.
//
// Guarded by the producer's lock, except the coordinators and turn, which belong to the goroutine of runOwner.
type ownership struct {
	wake    chan struct{} // capacity 1
	timeout time.Duration // of transactions, as InitProducerID wants it in either mode

	positionTopic string
	transactional bool // each transaction begins with the coordinator, so no epoch is asked for besides

	owner    sink.Owner
	looking  *look    // Latest waits for the stored position; nil: it does not
	wanted   bool     // Begin waits for an epoch
	begun    bool     // we have one
	plain    bool     // for good: the epoch is not the coordinator's, because the user may not, or the broker cannot
	identity identity // as the coordinator has it
	asked    uint64   // requests for the next epoch
	answered uint64
	renewed  time.Time // when the coordinator was last heard about the id; wall clock, it counts while we are suspended

	stored sink.Stored
	found  bool

	abandoning bool
	cancelStep context.CancelFunc // ends the step at hand; nil while there is none
	peer       string             // the coordinator's address that the step asks
	retired    bool               // the step was ended, because that broker has left the cluster

	unavailable time.Time // since when there is no coordinator; zero while there is one
	trouble     trouble
	failures    int

	transactionCoordinator coordinator
	groupCoordinator       coordinator
	turn                   int
}

func newOwnership(cfg *Config) *ownership {
	if !cfg.Owned && cfg.Transactions == nil {
		return nil
	}
	o := &ownership{
		wake: make(chan struct{}, 1), timeout: wire.OwnerTimeout, positionTopic: wire.DefaultPositionTopic,
		transactional: cfg.Transactions != nil,
	}
	o.transactionCoordinator.kind, o.groupCoordinator.kind = wire.CoordinatesTransactions, wire.CoordinatesGroups
	return o
}

// renewEvery is how often the coordinator is asked for the next epoch although nothing calls for it: it forgets an id
// that was idle for transactional.id.expiration.ms, 7 days by default, and leaders forget the epochs in a partition
// after a day without a write (producer.id.expiration.ms, before 3.4 after transactional.id.expiration.ms). A process
// that was suspended for longer than renewLimit asks before it sends anything, because a leader may no longer know that
// another instance wrote with a newer epoch. Below these limits nothing is forgotten, above them the coordinator is
// asked. What stays open is a coordinator that forgets the id within renewLimit, so a transactional.id.expiration.ms of
// less than that.
const (
	renewEvery = 12 * time.Hour
	renewLimit = wire.OwnerAge
)

// age is how long ago the coordinator was heard.
func (o *ownership) age(now time.Time) time.Duration { return now.Round(0).Sub(o.renewed) }

// renewing reports whether the coordinator is to be asked for the next epoch.
func (o *ownership) renewing() bool { return o.answered < o.asked }

// fences reports whether the coordinator's epochs protect the producer's batches.
func (o *ownership) fences() bool { return o != nil && !o.plain }

// Keep asks the coordinator whether our epoch is still the highest, and takes the next one. It returns ErrFenced when
// another producer has begun since. It is for a source that was interrupted: an instance that had it in between may
// have written, and another could still write the records that it had in hand.
//
// In a transaction it is not asked, since the coordinator sees every step of one and refuses an older epoch. It waits
// for Kafka as long as ctx lasts. Records are sent meanwhile.
func (p *Producer) Keep(ctx context.Context) error {
	o := p.own
	if o == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tx == nil && !o.plain {
		p.own.askEpoch()
	}
	for due := o.asked; o.answered < due && !o.plain; {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return p.ended
}

// askEpoch asks for the next epoch, after whatever is being asked now.
func (o *ownership) askEpoch() {
	o.asked++
	poke(o.wake)
}

// tick is the clock's part. ended is why the session is over; nil: it is not.
func (o *ownership) tick(now time.Time, ended error) {
	if ended == nil && o.fences() && !o.transactional && o.begun && !o.renewing() && o.age(now) > renewEvery {
		o.askEpoch()
	}
}

// outdated reports whether the coordinator has to be asked before anything is sent, and asks it.
func (o *ownership) outdated(now time.Time) bool {
	if !o.fences() || o.transactional || o.age(now) < renewLimit {
		return false
	}
	if !o.renewing() {
		o.askEpoch()
	}
	return true
}

// runOwner takes the producer through the steps that its owner and its transactions need, one request after the other,
// until ctx ends. Data flies beside it over the brokers' connections.
func (p *Producer) runOwner(ctx context.Context) {
	o := p.own
	defer o.transactionCoordinator.forget()
	defer o.groupCoordinator.forget()
	for ctx.Err() == nil {
		p.mu.Lock()
		if o.abandoning {
			p.forget()
		}
		step := p.nextStep()
		stepping, cancel := context.WithCancel(ctx)
		o.cancelStep, o.peer, o.retired = cancel, "", false
		p.mu.Unlock()
		if step == nil {
			select {
			case <-ctx.Done():
			case <-o.wake:
			}
		} else if wait := step(stepping); wait > 0 {
			wire.SleepUntil(stepping, later(wait))
		}
		cancel()
	}
}

// nextStep returns the next step, nil if there is none. A step returns how long to wait before the next.
func (p *Producer) nextStep() func(context.Context) time.Duration {
	o := p.own
	switch {
	case p.fatal != nil || p.ended != nil:
		return nil
	case o.looking != nil && !o.looking.done:
		return p.lookUp
	case o.wanted && !o.begun:
		return p.fence
	case !o.begun || o.plain:
		return nil
	case o.renewing():
		return p.renew
	case p.tx != nil:
		return p.nextTransactionStep()
	}
	return nil
}

// renew takes the next epoch.
func (p *Producer) renew(ctx context.Context) time.Duration {
	p.mu.Lock()
	o := p.own
	id, asked := o.identity, o.asked
	p.mu.Unlock()
	next, code, err := p.initTransactional(ctx, id)
	if err != nil {
		return p.stepFailed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch v := wire.VerdictOf(code); {
	case code == 0 && next.id == id.id:
		o.answered = asked
		p.adopt(next)
		return 0
	case code == 0: // the coordinator had forgotten the id, so its epochs say nothing about other producers
		p.fencedBy("the coordinator has given the transactional id another producer id")
		return 0
	case code == wire.InvalidProducerEpoch || code == wire.InvalidProducerIDMapping || v.Action == wire.Fenced:
		p.fencedBy(v.Name)
		return 0
	case o.refuses(code):
		p.goPlain(v.Name)
		return 0
	default:
		o.failures++
		return p.wait("InitProducerID", o.object(), v)
	}
}

// adopt makes the coordinator's answer the identity of everything that begins a sequence from here on. Between two
// transactions nothing is in flight, and every partition begins one.
func (p *Producer) adopt(id identity) {
	o := p.own
	o.identity, o.failures, o.renewed, o.unavailable = id, 0, time.Now().Round(0), time.Time{}
	o.trouble.resolve(&p.troubles)
	p.id = id
	if p.tx != nil {
		for _, t := range p.topics {
			for _, part := range t.partitions {
				part.restart()
			}
		}
	}
	p.announce()
	for _, b := range p.brokers {
		p.pump(b)
	}
}

// fencedBy ends the sending. Unacknowledged records stay until Abandon.
func (p *Producer) fencedBy(why string) {
	o := p.own
	if p.ended != nil {
		return
	}
	p.metrics.fenced.Inc()
	p.log.Warn("kafka takes no more records from this instance: another instance has taken over",
		zap.String(logkey.TransactionalID, o.owner.ID), zap.String(logkey.Reason, why),
		zap.Int64(logkey.ProducerID, o.identity.id), zap.Int16(logkey.Epoch, o.identity.epoch))
	p.end(sink.ErrFenced)
}

// outranked takes a leader's answer that it knows of a newer epoch. A partition goes on with the epoch its sequence
// began with, while ours may have been raised since, by Keep for one. So only a refusal of our latest means another
// producer, and that of an earlier one ends the session. While the coordinator is asked its answer decides: it may have
// raised our epoch already.
func (p *Producer) outranked(part *partition, cause wire.Verdict) {
	if p.own.renewing() {
		p.postpone(part, cause, p.cfg.pace.delay(part.attempt))
		return
	}
	if part.begun && part.identity != p.own.identity {
		p.giveUp(part.object(), cause.Name)
		return
	}
	p.fencedBy(cause.Name + " from " + part.String())
}

// refuses reports whether the code says that this user, or this broker, will never give an epoch.
func (o *ownership) refuses(code int16) bool {
	return code == wire.TransactionalIDAuthorizationFailed || code == wire.UnsupportedVersion ||
		code == wire.InvalidRequest
}

// goPlain continues without the coordinator, with a producer id that any broker gives. Each partition is still free of
// gaps and repeats of its own, but an instance that has lost its slot is not kept from sending the records that it has
// in hand.
func (p *Producer) goPlain(why string) {
	o := p.own
	o.plain, o.begun, o.answered, o.identity = true, true, o.asked, noIdentity
	o.failures = 0
	o.trouble.resolve(&p.troubles)
	p.id = noIdentity
	poke(p.control.wake)
	remedy := p.cfg.AllowFencing(o.owner.ID)
	p.log.Warn("kafka will not fence an instance that has lost the slot: it may publish old events after newer events",
		zap.String(logkey.TransactionalID, o.owner.ID), zap.String(logkey.Reason, why),
		zap.String(logkey.Remedy, remedy.Next), zap.Strings(logkey.Commands, remedy.Commands))
	p.announce()
}
