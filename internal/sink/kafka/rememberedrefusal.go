package kafka

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refusals are the records of a topic that brokers have refused after they were taken, by fingerprint. Such a refusal
// ends the session; the record is produced again, and is refused before it is taken. One that is forgotten is sent, and
// refused, once more.
type refusals struct {
	of   map[uint64]refusal
	last time.Time
}

type refusal struct {
	err      sink.RefusedError
	settings string // of the topic, as far as they were known
	at       time.Time
}

const (
	// mostRefused bounds the refusals that are remembered of one topic.
	mostRefused = 10_000
	// refusedAge is for how long they are remembered after the last one.
	refusedAge = 20 * time.Minute
)

var fingerprintSeed = maphash.MakeSeed()

// fingerprint distinguishes a record from others of its topic. Its time does not count: it may be renewed.
func fingerprint(rec *router.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	write := func(b []byte) {
		maphash.WriteComparable(&h, len(b))
		_, _ = h.Write(b)
	}
	write(rec.Key)
	write(rec.Value)
	for _, header := range rec.Headers {
		write([]byte(header.Key))
		write(header.Value)
	}
	return h.Sum64()
}

// remember keeps the refusal of a record of the topic.
func (t *topic) remember(rec *router.Record, err sink.RefusedError) {
	if t.refused == nil || len(t.refused.of) == mostRefused {
		t.refused = &refusals{of: map[uint64]refusal{}}
	}
	t.refused.last = time.Now()
	t.refused.of[fingerprint(rec)] = refusal{err, t.settings, t.refused.last}
}

// forgetRefusals of long ago: each record of the topic is compared with them.
func (t *topic) forgetRefusals(now time.Time) {
	if t.refused != nil && now.Sub(t.refused.last) > refusedAge {
		t.refused = nil
	}
}

// refusedBefore returns a *RefusedError for a record that a broker has refused, unless the topic's settings have
// changed since. They are asked for if they were not lately, unless this user may not; ctx ends that wait. A broker may
// have other reasons than settings, so the record is sent again now and then. Each time the session ends, and what it
// had not acknowledged is repeated.
func (p *Producer) refusedBefore(ctx context.Context, t *topic, rec *router.Record) error {
	for t.refused != nil {
		key := fingerprint(rec)
		r, found := t.refused.of[key]
		if !found {
			return nil
		}
		if now := time.Now(); now.Sub(t.describedAt) < p.cfg.pace.slow || t.described && t.settings == "" {
			if r.settings == t.settings && now.Sub(r.at) < p.cfg.pace.refused {
				return &r.err
			}
			delete(t.refused.of, key)
			return nil
		}
		p.flush()
		t.described = false
		p.control.wantMetadata()
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}
