package kafka

import (
	"fmt"

	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// identity makes the producer idempotent: the broker knows a batch again by producer id, epoch and
// sequence (KIP-98).
type identity struct {
	id    int64
	epoch int16
}

var noIdentity = identity{id: -1, epoch: -1}

func (i identity) valid() bool { return i.id >= 0 }

// maxEpoch is the last epoch to use; brokers keep 32767 for themselves.
const maxEpoch = 32766

// bumped is the same id with the next epoch; false when the epochs are used up. A producer without transactional id
// may raise its own epoch: a partition's leader accepts a higher one when its sequence starts at 0 (KIP-360). Where the
// epochs are the coordinator's it is asked instead, see ownership.
func (i identity) bumped() (identity, bool) {
	if !i.valid() || i.epoch >= maxEpoch {
		return noIdentity, false
	}
	return identity{i.id, i.epoch + 1}, true
}

// initProducerID asks for a producer id. Any broker can give one where there is no transactional id.
func (p *Producer) initProducerID(w *wire.Conn) error {
	res, err := w.RoundTrip(&initproducerid.Request{ProducerID: -1, ProducerEpoch: -1}, p.control.timeout)
	if err != nil {
		return err
	}
	answer := res.(*initproducerid.Response)
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := wire.VerdictOf(answer.ErrorCode); v.Action != wire.Done {
		p.idFailures++
		delay, kind := p.cfg.pace.delay(p.idFailures), sink.NoProducerID
		// coordinators load for some seconds after a start
		sentence, remedy := fmt.Sprintf("InitProducerID: %s.", v.Name), fault.Remedy{}
		if v.Action == wire.Mute {
			delay, kind = p.cfg.pace.slowly(), v.Trouble
			remedy = p.cfg.AllowIdempotence()
		}
		p.idTrouble.set(&p.troubles, kind, "producer id", sentence, remedy)
		p.control.idAt = later(delay)
		return nil
	}
	p.id = identity{answer.ProducerID, answer.ProducerEpoch}
	p.idFailures = 0
	p.idTrouble.resolve(&p.troubles)
	p.log.Info("got a producer id", zap.Int64(logkey.ProducerID, p.id.id), zap.Int16(logkey.Epoch, p.id.epoch))
	for _, b := range p.brokers {
		p.pump(b)
	}
	return nil
}
