package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// belong gives the producer its owner, which stays.
func (o *ownership) belong(owner sink.Owner) error {
	if o.owner != (sink.Owner{}) && o.owner != owner {
		return errors.New("kafka: another owner than before")
	}
	o.owner = owner
	return nil
}

// Latest returns the position that the owner has stored in Kafka last, false for none, without taking anything from
// another producer: it may still be at work, and a transaction of its that is open is not waited for. It is for a
// caller who has to find out whether it may Begin at all; what Begin returns later may be further.
//
// It waits for Kafka as long as ctx lasts. An error that wraps ErrNotAllowed is possible without transactions only,
// which do not need the position; with them Latest waits for the right, as Begin does.
func (p *Producer) Latest(ctx context.Context, owner sink.Owner) (sink.Stored, bool, error) {
	o := p.own
	if o == nil {
		return sink.Stored{}, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := o.belong(owner); err != nil {
		return sink.Stored{}, false, err
	}
	l := &look{}
	o.looking = l
	defer func() { o.looking = nil }()
	if err := awaitStep(ctx, p, &l.done); err != nil {
		return sink.Stored{}, false, err
	}
	return l.stored, l.found, l.err
}

// look is a question of Latest.
type look struct {
	done   bool
	stored sink.Stored
	found  bool
	err    error
}

// lookUp is the step for Latest.
func (p *Producer) lookUp(ctx context.Context) time.Duration {
	text, err := p.readStored(ctx, false)
	if err = notAllowed(err); err != nil && (p.tx != nil || !errors.Is(err, sink.ErrNotAllowed)) {
		return p.stepFailed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.own
	l := o.looking
	if l == nil {
		return 0 // Latest has returned
	}
	l.done, l.err = true, err
	if text != "" {
		if l.stored, err = sink.ParseStored(text); err != nil {
			l.err = notAPosition(&p.cfg.Cluster, o.owner.ID, o.positionTopic, err)
		}
		l.found = err == nil
	}
	o.failures = 0
	o.trouble.resolve(&p.troubles)
	p.announce()
	return 0
}

// readStored returns the metadata of the stored position, empty for none. If it is to be settled, the coordinator says
// so while a transaction's outcome is not worked off, and is asked again; otherwise a transaction that is open is
// passed over.
func (p *Producer) readStored(ctx context.Context, settled bool) (string, error) {
	o := p.own
	w, err := p.coordinate(ctx, &o.groupCoordinator, o.owner.ID)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	text, code, err := w.FetchOffset(o.owner.ID, o.positionTopic, settled, p.control.timeout)
	if err != nil {
		o.groupCoordinator.forget()
		return "", err
	}
	switch code {
	case 0:
		return text, nil
	case wire.GroupIDNotFound:
		return "", nil
	case wire.UnstableOffsetCommit:
		code = wire.ConcurrentTransactions // the same wait
	}
	return "", &wire.CodeError{API: "OffsetFetch", Code: code}
}
