package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// Claim says whose records these are.
type Claim struct {
	// Name is the transactional id and the group of the position. All instances that relay one slot use the same, and
	// nobody else.
	Name string

	// SystemID is the Postgres cluster's, stored with the position.
	SystemID string
}

// Begin takes over from whoever used the claim before: that instance is fenced, its open transaction aborted (KIP-98).
// It returns the position that the last committed transaction left, false for none. The caller must know that it is
// the rightful one, by holding the slot, and must not produce what the position covers.
//
// Begin waits for Kafka as long as ctx lasts. It is called once, before the first Produce; in idempotent mode it
// returns at once.
func (p *Producer) Begin(ctx context.Context, claim Claim) (Stored, bool, error) {
	x := p.tx
	if x == nil {
		return Stored{}, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.claimed && x.claim != claim {
		return Stored{}, false, errors.New("kafka: Begin with another claim")
	}
	x.claim, x.claimed = claim, true
	poke(x.wake)
	for !x.begun {
		if p.over {
			return Stored{}, false, p.ending()
		}
		if err := p.await(ctx); err != nil {
			return Stored{}, false, err
		}
	}
	return x.stored, x.found, nil
}

// takeOver is the step for Begin.
func (p *Producer) takeOver(ctx context.Context) time.Duration {
	x := p.tx
	if err := p.ensurePositionTopic(ctx); err != nil {
		return p.stepFailed(err)
	}
	id, code, err := p.initTransactional(ctx, noIdentity)
	if err == nil && code != 0 {
		err = &codeError{"InitProducerID", code}
	}
	if err != nil {
		return p.stepFailed(err)
	}
	text, err := p.fetchStored(ctx)
	if err != nil {
		return p.stepFailed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" {
		if x.stored, err = parseStored(text); err != nil {
			// Something else commits offsets for the group. To go on would be to repeat, or to skip, at random.
			p.fail(&fault.Error{
				Kind: fault.Operator, Object: x.group(), Err: fmt.Errorf("the offset's metadata is no position: %w", err),
				Next: "Find out who else commits offsets for this group. When nobody does, delete them: kafka-consumer-groups --delete-offsets --group " +
					x.claim.Name + " --topic " + x.cfg.PositionTopic + "; records since the slot's position are then sent again.",
			})
			return 0
		}
		x.found = true
	}
	p.id, x.committed, x.begun, x.failures = id, text, true, 0
	x.trouble.resolve(p.log)
	fields := []zap.Field{zap.String("transactional_id", x.claim.Name), zap.Int64("producer_id", id.id), zap.Int16("epoch", id.epoch)}
	if x.found {
		fields = append(fields, zap.String("position", x.stored.text()), zap.String("left_by", x.stored.Instance))
	}
	p.log.Info("took over the transactional id", fields...)
	p.announce()
	for _, b := range p.brokers {
		p.pump(b)
	}
	return 0
}

// text is the position as the record's header has it.
func (p Position) text() string { return fmt.Sprintf("%016x-%08x", p.Commit, p.Index) }

// initTransactional asks for a producer id and epoch: with noIdentity for one above everybody else's, with our own for
// the next epoch, refused when somebody took over (KIP-360).
func (p *Producer) initTransactional(ctx context.Context, own identity) (identity, int16, error) {
	x := p.tx
	res, err := p.ask(ctx, &x.transactionCoordinator, x.claim.Name, &initproducerid.Request{
		TransactionalID: x.claim.Name, TransactionTimeoutMs: int32(x.cfg.Timeout.Milliseconds()),
		ProducerID: own.id, ProducerEpoch: own.epoch,
	})
	if err != nil {
		return noIdentity, 0, err
	}
	answer := res.(*initproducerid.Response)
	return identity{answer.ProducerID, answer.ProducerEpoch}, answer.ErrorCode, nil
}

// fetchStored returns the metadata of the stored position, empty for none. While a transaction's outcome is not worked
// off the coordinator says so, and it is asked again.
func (p *Producer) fetchStored(ctx context.Context) (string, error) {
	x := p.tx
	w, err := p.coordinate(ctx, &x.groupCoordinator, x.claim.Name)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	text, code, err := w.fetchOffset(x.claim.Name, x.cfg.PositionTopic, p.control.timeout)
	if err != nil {
		x.groupCoordinator.forget()
		return "", err
	}
	switch code {
	case 0:
		return text, nil
	case groupIDNotFound:
		return "", nil
	case unstableOffsetCommit:
		code = concurrentTransactions // the same wait
	}
	return "", &codeError{"OffsetFetch", code}
}

const (
	groupIDNotFound      = 69
	unstableOffsetCommit = 88
)

// ensurePositionTopic creates the topic that the position is committed for, if it is missing.
func (p *Producer) ensurePositionTopic(ctx context.Context) error {
	x := p.tx
	w, err := p.dialAny(ctx, x.turn)
	if err != nil {
		return err
	}
	x.turn++
	defer func() { _ = w.nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(&metadata.Request{TopicNames: []string{x.cfg.PositionTopic}}, p.control.timeout)
	if err != nil {
		return err
	}
	known := res.(*metadata.Response)
	if len(known.Topics) == 1 && known.Topics[0].ErrorCode != 3 {
		return nil // it exists, or what is wrong shows when it is used
	}
	answers, err := createTopics(ctx, &p.cfg, w, controllerOf(known), &createtopics.Request{
		Topics: []createtopics.RequestTopic{positionTopicSettings(len(known.Brokers)).request(x.cfg.PositionTopic)},
	}, p.control.timeout)
	if err != nil {
		return err
	}
	for _, t := range answers {
		if t.ErrorCode != 0 && t.ErrorCode != topicAlreadyExists {
			return &codeError{"CreateTopics", t.ErrorCode}
		}
	}
	return nil
}

// positionTopicSettings: nothing is ever written to it.
func positionTopicSettings(brokers int) TopicSettings {
	return TopicSettings{Partitions: 1, ReplicationFactor: min(3, brokers)}
}

// recovery is how far the live transaction's recovery has come. Each part is done once, however often the next one has
// to be tried.
type recovery struct {
	cause   verdict
	paced   bool // it waited, where the one before did not help
	aborted bool
	fenced  bool     // the coordinator does not know our epoch any more
	renewed bool     // id is good
	id      identity // of the next try
}

// lose starts the recovery: the transaction can't go on as it is. Nothing more is sent; when nothing flies, recover runs.
func (p *Producer) lose(cause verdict) {
	x := p.tx
	if !p.restarting {
		p.restarting = true
		x.recovery = recovery{cause: cause}
	}
	poke(x.wake)
}

// recover ends the live transaction in Kafka, takes a new epoch and sends the transaction again, all of it from memory.
// Or it finds that somebody else is at work, and stops.
//
// The coordinator raises the epoch both when an instance takes over and when it aborts a transaction that was open for
// too long (TransactionStateManager.timedOutTransactions), and tells us nothing about which. The stored position does:
// while it is the one that we left, nobody has written anything, and whatever comes next in the log is ours to write.
// The id is taken back only when our own transaction may have timed out, so never in a loop, and the position is read
// again afterwards, when nobody else can move it.
func (p *Producer) recover(ctx context.Context) time.Duration {
	x := p.tx
	p.mu.Lock()
	t, id, r := x.live, p.id, x.recovery
	p.mu.Unlock()
	if x.redone > 0 && !r.paced && r.cause.action != split {
		r.paced = true
		p.keep(r)
		return p.cfg.pace.delay(x.redone)
	}
	if err := p.tryRecover(ctx, t, id, &r); err != nil {
		p.keep(r)
		return p.stepFailed(err)
	}
	return 0
}

func (p *Producer) keep(r recovery) {
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
		if err := p.takeBack(ctx, t, r); err != nil || !r.renewed {
			return err
		}
	}
	if !r.renewed {
		return nil
	}
	if !r.fenced && !t.ending {
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
// our epoch for good: given a stale one, the coordinator looks at the producer id alone where a transaction is open, and
// would abort the one of our successor, with which we share the id.
func (p *Producer) abort(ctx context.Context, t *transaction, id identity, r *recovery) error {
	x := p.tx
	if t.ending && r.cause.code != invalidTxnState {
		r.fenced = true // the answer to EndTxn(commit)
		return nil
	}
	if !r.aborted && !t.opened.IsZero() && !t.ending {
		res, err := p.ask(ctx, &x.transactionCoordinator, x.claim.Name, &endtxn.Request{
			TransactionalID: x.claim.Name, ProducerID: id.id, ProducerEpoch: id.epoch,
		})
		if err != nil {
			return err
		}
		switch code := res.(*endtxn.Response).ErrorCode; code {
		case 0, invalidTxnState: // there is none open
		case invalidProducerEpoch, invalidProducerIDMapping, producerFenced:
			r.fenced, r.cause = true, verdictOf(code)
			return nil
		default:
			return &codeError{"EndTxn", code}
		}
	}
	r.aborted = true
	next, code, err := p.initTransactional(ctx, id)
	switch {
	case err != nil:
		return err
	case code == 0:
		r.id, r.renewed = next, true
	case code == invalidProducerEpoch || code == invalidProducerIDMapping || code == producerFenced || code == invalidTxnState:
		r.fenced, r.cause = true, verdictOf(code)
	default:
		return &codeError{"InitProducerID", code}
	}
	return nil
}

const (
	invalidProducerEpoch     = 47
	invalidTxnState          = 48
	invalidProducerIDMapping = 49
	producerFenced           = 90
)

// untouched reports whether nobody has committed since we did. An offset that is gone has expired, after
// offsets.retention.minutes without a commit by anybody.
func (x *transactions) untouched(text string) bool { return text == "" || text == x.committed }

// takeBack takes the transactional id back where that is right.
func (p *Producer) takeBack(ctx context.Context, t *transaction, r *recovery) error {
	text, err := p.fetchStored(ctx)
	if err != nil {
		return err
	}
	if !p.tx.untouched(text) && !(t.ending && text == t.metadata) {
		p.superseded(text, r.cause)
		return nil
	}
	expired := r.cause.code == invalidProducerIDMapping // the coordinator forgets an id that was idle for a week
	timedOut := !t.opened.IsZero() && time.Since(t.opened) >= p.tx.cfg.Timeout*3/4
	if !expired && !timedOut {
		p.superseded(text, r.cause)
		return nil
	}
	next, code, err := p.initTransactional(ctx, noIdentity)
	if err == nil && code != 0 {
		err = &codeError{"InitProducerID", code}
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
	x.trouble.resolve(p.log)
	if !committed {
		x.recovery = *r
		p.redo(r.id)
	} else {
		p.log.Warn("the kafka transaction turned out to be committed", zap.String("error", r.cause.name), zap.Uint64("records", t.records))
		p.succeed()
		p.restartAll(r.id)
	}
}

// superseded ends the producer: another instance is at work.
func (p *Producer) superseded(text string, cause verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.tx
	who := "another instance took over, which has committed nothing yet"
	if other, err := parseStored(text); err == nil && other.Instance != x.cfg.Instance {
		who = fmt.Sprintf("%s took over and has committed up to %s", other.Instance, other.text())
	}
	p.fail(&fault.Error{
		Kind: fault.Operator, Object: x.object(), Err: fmt.Errorf("fenced (%s): %s", cause.name, who),
		Next: "Nothing is lost or doubled: that instance goes on. Stop one of the two; where a second one is wanted as standby, start it again and it waits for the slot.",
	})
}
