package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol/endtxn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// recovery is how far the live transaction's recovery has come. Each part is done once, however often the next one has
// to be tried.
type recovery struct {
	cause   wire.Verdict
	ended   bool // the transaction is committed: only a new epoch is missing
	paced   bool // it waited, where the previous recovery did not help
	aborted bool
	fenced  bool     // the coordinator does not know our epoch any more
	renewed bool     // id is good
	id      identity // of the next try
}

// lose starts the recovery: the transaction cannot continue. Nothing more is sent; when nothing flies, recover
// runs.
func (p *Producer) lose(cause wire.Verdict) {
	x := p.tx
	if !p.restarting {
		p.restarting = true
		x.recovery = recovery{cause: cause}
	}
	poke(x.wake)
}

// renewAfter takes a new epoch between the live transaction, which is committed, and the next one. A request of ours
// whose answer was lost may still arrive. Under the same epoch the coordinator would take it for one about the next
// transaction: an EndTxn would commit the records that are there by then, without their position (KIP-890).
func (p *Producer) renewAfter() {
	p.lose(wire.Verdict{Name: "an answer was lost"})
	p.tx.recovery.ended = true
}

// recover ends the live transaction in Kafka, takes a new epoch and sends the transaction again, all of it from memory.
// Or it finds that another producer is at work, and is fenced.
//
// The coordinator raises the epoch both when an instance takes over and when it aborts a transaction that was open for
// too long (TransactionStateManager.timedOutTransactions), and does not say which. The stored position does: while it
// is the position that we left, no other producer has written anything, and whatever comes next in the log is ours to
// write. The id is taken back only when our own transaction may have timed out, so never in a loop, and the position is
// read again afterwards, when no other producer can move it.
func (p *Producer) recover(ctx context.Context) time.Duration {
	x := p.tx
	p.mu.Lock()
	t, id, r := x.live, p.id, x.recovery
	p.mu.Unlock()
	if x.redone > 0 && !r.paced && r.cause.Action != wire.Split {
		r.paced = true
		p.setRecovery(r)
		return p.cfg.pace.delay(x.redone)
	}
	if err := p.tryRecover(ctx, t, id, &r); err != nil {
		p.setRecovery(r)
		return p.stepFailed(err)
	}
	return 0
}

func (p *Producer) setRecovery(r recovery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tx.recovery = r
}

func (p *Producer) tryRecover(ctx context.Context, t *transaction, id identity, r *recovery) error {
	if !r.fenced && !r.renewed {
		if err := p.abort(ctx, t, id, r); err != nil {
			return err
		}
	}
	if r.fenced && !r.renewed {
		if err := p.fenceAgain(ctx, t, r); err != nil || !r.renewed {
			return err
		}
	}
	if !r.renewed {
		return nil
	}
	switch {
	case r.ended:
		p.finishRecovery(t, r, true)
		return nil
	case !r.fenced && !t.ending:
		p.finishRecovery(t, r, false)
		return nil
	}
	text, err := p.fetchStored(ctx)
	switch {
	case err != nil:
		return err
	case t.ending && text == t.metadata: // not to be read before: Produce seals at any time
		p.finishRecovery(t, r, true)
	case p.tx.untouched(text):
		p.finishRecovery(t, r, false)
	default:
		p.superseded(text, r.cause)
	}
	return nil
}

// abort ends the transaction and asks for our next epoch. InitProducerID comes only after an answer to EndTxn that took
// our epoch for good: given a stale one, the coordinator looks at the producer id alone where a transaction is open,
// and would abort our successor's transaction, with which we share the id.
func (p *Producer) abort(ctx context.Context, t *transaction, id identity, r *recovery) error {
	x := p.tx
	if t.ending && !r.ended && r.cause.Code != wire.InvalidTxnState {
		r.fenced = true // the answer to EndTxn(commit)
		return nil
	}
	if !r.aborted && !t.opened.IsZero() && !t.ending {
		res, err := p.ask(ctx, &x.transactionCoordinator, x.owner.TransactionalID, &endtxn.Request{
			TransactionalID: x.owner.TransactionalID, ProducerID: id.id, ProducerEpoch: id.epoch,
		})
		if err != nil {
			return err
		}
		switch code := res.(*endtxn.Response).ErrorCode; code {
		case 0, wire.InvalidTxnState: // there is none open
		case wire.InvalidProducerEpoch, wire.InvalidProducerIDMapping, wire.ProducerFenced:
			r.fenced, r.cause = true, wire.VerdictOf(code)
			return nil
		default:
			return &wire.CodeError{API: "EndTxn", Code: code}
		}
	}
	r.aborted = true
	next, code, err := p.initTransactional(ctx, id)
	switch {
	case err != nil:
		return err
	case code == 0:
		r.id, r.renewed = next, true
	case code == wire.InvalidProducerEpoch || code == wire.InvalidProducerIDMapping || code == wire.ProducerFenced ||
		code == wire.InvalidTxnState:
		r.fenced, r.cause = true, wire.VerdictOf(code)
	default:
		return &wire.CodeError{API: "InitProducerID", Code: code}
	}
	return nil
}

// untouched reports whether no producer has committed since we did. A missing offset has expired, after
// offsets.retention.minutes without any commit.
func (x *transactions) untouched(text string) bool { return text == "" || text == x.committed }

// fenceAgain fences the producer that raised the epoch, where that may only be the coordinator itself.
func (p *Producer) fenceAgain(ctx context.Context, t *transaction, r *recovery) error {
	text, err := p.fetchStored(ctx)
	if err != nil {
		return err
	}
	if !p.tx.untouched(text) && !(t.ending && text == t.metadata) {
		p.superseded(text, r.cause)
		return nil
	}
	expired := r.cause.Code == wire.InvalidProducerIDMapping // the coordinator forgets an id that was idle for a week
	timedOut := !t.opened.IsZero() && time.Since(t.opened) >= p.tx.cfg.Timeout*3/4
	if !expired && !timedOut {
		p.superseded(text, r.cause)
		return nil
	}
	next, code, err := p.initTransactional(ctx, noIdentity)
	if err == nil && code != 0 {
		err = &wire.CodeError{API: "InitProducerID", Code: code}
	}
	if err != nil {
		return err
	}
	r.id, r.renewed = next, true
	return nil
}

// finishRecovery goes on under the new identity.
func (p *Producer) finishRecovery(t *transaction, r *recovery, committed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.tx
	x.failures = 0
	x.trouble.resolve(&p.troubles)
	if !committed {
		x.recovery = *r
		p.redo(r.id)
		return
	}
	if !r.ended {
		p.log.Warn("the kafka transaction turned out to be committed", zap.String(logkey.Cause, r.cause.Name),
			zap.Uint64(logkey.Records, t.records))
	}
	p.succeed()
	p.restartAll(r.id)
}

// superseded: another instance is at work.
func (p *Producer) superseded(text string, cause wire.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := "an instance that has committed nothing yet"
	if other, err := parseStored(text); err == nil && other.Instance != p.tx.cfg.Instance {
		who = fmt.Sprintf("%s, which has committed up to %s", other.Instance, other.Position)
	}
	p.fencedBy(fmt.Sprintf("%s, by %s", cause.Name, who))
}
