package kafka

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// trouble is the present trouble of one object, nil kind for none. Guarded by the producer's lock.
type trouble struct {
	sink.Trouble
	echo bool // of another trouble that is already reported
	told bool // in the log
}

// troubleLog logs troubles. A trouble that passes in a healthy cluster, as when a leader moves, is not worth
// a line while it is younger than shortly. Guarded by the producer's lock.
type troubleLog struct {
	log   *zap.Logger
	fresh map[*trouble]struct{} // not logged yet
}

const shortly = time.Second

func newTroubleLog(log *zap.Logger) troubleLog { return troubleLog{log, map[*trouble]struct{}{}} }

// tick logs the troubles that have lasted.
func (l *troubleLog) tick(now time.Time) {
	for t := range l.fresh {
		if now.Sub(t.Since) >= shortly {
			l.tell(t)
		}
	}
}

func (l *troubleLog) tell(t *trouble) {
	delete(l.fresh, t)
	if t.told || t.echo || t.Kind == "" {
		return
	}
	t.told = true
	fields := []zap.Field{
		zap.String(logkey.Trouble, string(t.Kind)), zap.String(logkey.Object, t.Object),
		zap.String(logkey.Reason, t.Sentence), zap.String(logkey.Remedy, t.Remedy),
	}
	if len(t.Commands) > 0 {
		fields = append(fields, zap.Strings(logkey.Commands, t.Commands))
	}
	l.log.Warn("waiting for kafka", fields...)
}

func passes(kind sink.TroubleKind) bool {
	switch kind {
	case sink.NoLeader, sink.NotEnoughReplicas, sink.BrokerUnreachable, sink.NoProducerID:
		return true
	}
	return false
}

// hear is set for a trouble that says no more than another one: it is not logged.
func (t *trouble) hear(kind sink.TroubleKind, object, sentence string, remedy fault.Remedy) {
	t.note(kind, object, sentence, remedy)
	t.echo = true
}

// speak lets the next set log a trouble that was only heard.
func (t *trouble) speak() {
	if t.echo {
		*t = trouble{}
	}
}

// note records the trouble, and reports whether it is a new one; Since stays while the kind is the same.
func (t *trouble) note(kind sink.TroubleKind, object, sentence string, remedy fault.Remedy) bool {
	if t.Kind == kind {
		t.Sentence, t.Remedy, t.Commands = sentence, remedy.Next, remedy.Commands
		return false
	}
	*t = trouble{Trouble: sink.Trouble{
		Kind: kind, Object: object, Since: time.Now(), Sentence: sentence, Remedy: remedy.Next,
		Commands: remedy.Commands,
	}}
	return true
}

// set records the trouble, and has it logged once.
func (t *trouble) set(l *troubleLog, kind sink.TroubleKind, object, sentence string, remedy fault.Remedy) {
	if !t.note(kind, object, sentence, remedy) {
		return
	}
	if passes(kind) {
		l.fresh[t] = struct{}{}
		return
	}
	l.tell(t)
}

// resolve forgets the trouble.
func (t *trouble) resolve(l *troubleLog) {
	if t.Kind == "" {
		return
	}
	delete(l.fresh, t)
	if t.told && !t.echo {
		l.log.Info("kafka trouble is over", zap.String(logkey.Trouble, string(t.Kind)),
			zap.String(logkey.Object, t.Object), zap.Duration(logkey.Lasted, time.Since(t.Since)))
	}
	*t = trouble{}
}

// Trouble returns the causes for which the producer waits at this moment, empty if nothing is wrong. Short ones, such
// as a leader that moves, show up too: look at Since.
func (p *Producer) Trouble() []sink.Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out, echoes []sink.Trouble
	add := func(t *trouble) {
		switch {
		case t.Kind == "":
		case t.echo:
			echoes = append(echoes, t.Trouble)
		default:
			out = append(out, t.Trouble)
		}
	}
	add(&p.control.trouble)
	add(&p.idTrouble)
	if p.own != nil {
		add(&p.own.trouble)
	}
	for _, b := range p.brokers {
		if b.ready.first != nil || len(b.inflight) > 0 { // otherwise nothing waits for this broker
			add(&b.trouble)
		}
	}
	for _, t := range p.topics {
		add(&t.trouble)
		if t.absent && t.trouble.Kind != "" {
			continue // its partitions wait for nothing besides
		}
		for _, part := range t.partitions {
			add(&part.trouble)
		}
	}
	if p.tokenTrouble.ofTokens(&p.cfg, &p.troubles); p.tokenTrouble.Kind != "" {
		echoes = append(echoes, p.tokenTrouble.Trouble) // a connection that waits for it says the same
	}
	for _, e := range echoes {
		if !slices.ContainsFunc(out, func(t sink.Trouble) bool { return t.Kind == e.Kind }) {
			out = append(out, e)
		}
	}
	return out
}

// reported reports whether the trouble with connections is already reported by another trouble that a single broker
// causes: its own, that of the control connection and that of the coordinators. With several brokers they mean
// different things.
func (p *Producer) reported(t *trouble, kind sink.TroubleKind) bool {
	if len(p.control.addrs) > 1 {
		return false
	}
	other := func(o *trouble) bool { return o != t && o.Kind == kind && !o.echo }
	if other(&p.control.trouble) || p.own != nil && other(&p.own.trouble) {
		return true
	}
	for _, b := range p.brokers {
		if other(&b.trouble) {
			return true
		}
	}
	return false
}

// ofTokens is set for the source of tokens for SASL, which connections that are open outlive for a while.
func (t *trouble) ofTokens(c *Config, l *troubleLog) {
	err := c.SASL.Lacking()
	if err == nil {
		t.resolve(l)
		return
	}
	const object = "token for Kafka"
	t.set(l, err.Kind, object, wire.Sentences(object, err), fault.Do(err.Remedy))
}
