package kafka

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A topic deletes a segment when its newest record timestamp is older than retention.ms, whenever it was written. So
// the record of an old row, from a snapshot, a replay or a backlog after an outage, can be deleted minutes after its
// acknowledgement. A topic may also refuse timestamps that are too far from the broker's clock.
//
// So a record keeps the timestamp of its row only within a bound around the present time. Beyond it, the record gets
// the present time, and the header router.HeaderOriginalTimestamp has what the row says. The bound is an hour, or a
// quarter of the topic's limit if that is less, or a minute if the topic's configuration may not be read.
// A quarter, because a record can wait in the producer as long again, see freshen: half of the retention is always
// left. A topic that deletes nothing by age bounds nothing in the past, and LogAppendTime nothing at all.

const (
	usualShift   = time.Hour
	unknownShift = time.Minute
	shiftPart    = 4

	// noShift stands for no bound, in milliseconds: far enough for any row, and no sum with it overflows.
	noShift = math.MaxInt64 / shiftPart
)

// shifts is how far a timestamp may be from the present time, in milliseconds.
type shifts struct{ past, ahead int64 }

var unknownShifts = shifts{unknownShift.Milliseconds(), unknownShift.Milliseconds()}

// shiftsOf reads a topic's configuration. A missing setting is not known.
func shiftsOf(config map[string]string) shifts {
	if config[wire.TimestampType] == "LogAppendTime" {
		return shifts{noShift, noShift}
	}
	usual := usualShift.Milliseconds()
	s := shifts{noShift, usual}
	if policy := config[wire.CleanupPolicy]; policy == "" || strings.Contains(policy, "delete") {
		retention, err := strconv.ParseInt(config[wire.RetentionMs], 10, 64)
		switch {
		case err != nil:
			s.past = unknownShifts.past
		case retention >= 0:
			s.past = min(usual, retention/shiftPart)
		}
	}
	bound := func(shift *int64, names ...string) {
		for _, name := range names {
			if most, err := strconv.ParseInt(config[name], 10, 64); err == nil && most >= 0 {
				*shift = min(*shift, most/shiftPart)
			}
		}
	}
	bound(&s.past, wire.TimestampDifference, wire.TimestampBefore)
	bound(&s.ahead, wire.TimestampDifference, wire.TimestampAfter)
	return s
}

// timestamps is the window of timestamps that records of a topic keep. It is as of the topic's last batch: a record
// outside of it is judged again by the clock, so that records within it cost one comparison.
type timestamps struct {
	oldest int64
	span   uint64
}

// keeps reports whether the timestamp is in the window.
func (w timestamps) keeps(ms int64) bool { return uint64(ms-w.oldest) <= w.span }

// around is the window at a time. Timestamps before 1970 are outside: -1 means none in Kafka.
func (s shifts) around(now int64) timestamps {
	oldest := max(0, now-s.past)
	return timestamps{oldest, uint64(now - oldest + s.ahead)}
}

// look brings the topic's window to the present time and returns it.
func (t *topic) look() (now int64) {
	now = time.Now().UnixMilli()
	t.times = t.shifts.around(now)
	return now
}

// stamped is scratch for a record with another timestamp.
type stamped struct {
	rec     router.Record
	headers []router.Header
	value   [20]byte
}

// timely returns the record as it is sent: with its own timestamp where the topic can take it. What it returns is valid
// until the next call with the same scratch. keep has each record keep its timestamp.
func (t *topic) timely(rec *router.Record, keep bool, s *stamped) *router.Record {
	now := t.look()
	if keep || t.times.keeps(rec.Timestamp) {
		return rec
	}
	s.rec = *rec
	s.rec.Timestamp = now
	if originalAt(rec.Headers) < 0 {
		s.headers = append(append(s.headers[:0], rec.Headers...), original(s.value[:0], rec.Timestamp))
		if s.rec.Headers = s.headers; t.tight(&s.rec, s.rec.Size()) { // a row that fits must not become too large
			s.rec.Headers = rec.Headers
		}
	}
	return &s.rec
}

func original(buf []byte, ms int64) router.Header {
	return router.Header{Key: router.HeaderOriginalTimestamp, Value: strconv.AppendInt(buf, ms, 10)}
}

func originalAt(headers []router.Header) int {
	return slices.IndexFunc(headers, func(h router.Header) bool { return h.Key == router.HeaderOriginalTimestamp })
}

// takeOriginal undoes timely for a record that was refused.
func takeOriginal(rec *router.Record) {
	at := originalAt(rec.Headers)
	if at < 0 {
		return
	}
	if ms, err := strconv.ParseInt(string(rec.Headers[at].Value), 10, 64); err == nil {
		rec.Timestamp = ms
		rec.Headers = slices.Delete(rec.Headers, at, at+1)
	}
}

// freshen gives the batch that is sent next the present time where it has waited so long, while Kafka was away, that
// its timestamps have left the window. Its place in the sequence stays: by that a broker recognizes a copy that it has,
// not by the bytes.
func (part *partition) freshen(now time.Time, c *Config) {
	past, ms := part.topic.shifts.past, now.UnixMilli()
	if c.KeepTimestamps || ms-part.head().made <= past {
		return
	}
	if len(part.queued) == 0 {
		part.seal()
	}
	if err := part.restamp(ms - past); err != nil {
		c.Logger.Error("timestamps of a batch that waited were not renewed", zap.Stringer(logkey.Partition, part),
			zap.Error(err))
	}
}

// restamp gives the present time to those records at the head of the queue that are older than oldest.
func (part *partition) restamp(oldest int64) error {
	b := part.queued[0]
	fresh, err := b.restamped(time.Now().UnixMilli(), oldest)
	if err != nil {
		return err
	}
	part.pending += fresh.size() - b.size()
	part.queued[0] = fresh
	b.free()
	return nil
}

// restamped returns the batch, uncompressed, with the time instead of timestamps before oldest. b is unchanged.
func (b *batch) restamped(now, oldest int64) (*batch, error) {
	data, err := b.expand()
	if err != nil {
		return nil, err
	}
	fresh, named := newBatch(b.part), b.takesHeaders()
	fresh.tx = b.tx
	for _, ticket := range b.tickets {
		var raw rawRecord
		var rec router.Record
		if raw, data, err = nextRecord(data); err == nil {
			rec, err = raw.decode()
		}
		if err != nil {
			fresh.free()
			return nil, err
		}
		if rec.Timestamp = b.firstTimestamp + raw.timestampDelta; rec.Timestamp < oldest {
			if named && originalAt(rec.Headers) < 0 {
				rec.Headers = append(rec.Headers, original(nil, rec.Timestamp))
			}
			rec.Timestamp = now
		}
		fresh.append(&rec, ticket, math.MaxInt)
	}
	fresh.window, fresh.made, fresh.refusedTimes = b.window, now, b.refusedTimes
	fresh.tags = append(fresh.tags, b.tags...)
	if b.sequenced {
		fresh.assign(b.identity, b.sequence)
	}
	return fresh, nil
}

// originalBytes is more than a header with the original timestamp takes in a batch.
const originalBytes = 60

// takesHeaders reports whether its records can get one header more. A batch that was sent before must not have to be
// split for that: a broker that has it would not recognize the halves.
func (b *batch) takesHeaders() bool {
	t := b.part.topic
	return !b.sequenced || b.size()+int(b.records)*originalBytes <= max(t.limit, t.max)
}

// refusedTimestamp answers INVALID_TIMESTAMP for the batch at the head of the queue where timestamps may change: its
// records get the present time. Kafka refuses that only where a clock or a very narrow setting is to blame, which no
// row is; so it is tried again, slowly.
func (p *Producer) refusedTimestamp(part *partition, cause wire.Verdict) error {
	again := part.queued[0].refusedTimes
	if err := part.restamp(math.MaxInt64); err != nil {
		return err
	}
	part.queued[0].refusedTimes = true
	part.topic.described = false
	p.control.wantMetadata()
	if again {
		p.postpone(part, cause, p.cfg.pace.slowly())
	}
	return nil
}
