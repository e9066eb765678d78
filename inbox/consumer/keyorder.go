package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// holdEvery is how often the dead-letter topic is read while keys are held: an operator may have dismissed a letter.
const holdEvery = 2 * time.Second

// markHandled is the header of the mark by which a consumer says that a letter that held its key is handled.
const (
	markHandled = "cdc-outbox-handled"
	markAttempt = "cdc-outbox-retry-attempt"
)

// loadHeldKeys reads which keys are held, for as long as it takes, and handles the waiting letters that a predecessor
// has left. Without it the first record might pass a letter of its key. It returns false if the assignment is over.
func (p *partition) loadHeldKeys(work, over context.Context) bool {
	if p.c.opts.HoldKeys == 0 {
		return true
	}
	p.holds = newHolds(p.c.opts.Group, p.topic, p.id)
	return p.refresh(over) && p.resume(work, over)
}

// refresh reads the dead-letter topic to its end, for as long as it takes. The end is that of all records: while a
// transaction of another producer is open in the topic, letters after its begin cannot be read, and are waited for.
func (p *partition) refresh(over context.Context) bool {
	p.holds.begin(p.next)
	again := false // the topic was created again
	for strikes := 1; over.Err() == nil; strikes++ {
		err := p.c.follow(over, p.c.opts.DeadLetterTopic(p.topic), p.holds, uncommitted)
		switch {
		case !errors.Is(err, errShorter):
			strikes = 0
		case strikes == maxStrikes:
			p.c.opts.Logger.Error("the dead-letter topic was created again, or truncated, so letters that were open "+
				"in it may no longer exist", "topic", p.topic, "partition", p.id)
			p.holds.startOver()
			again = true
			continue
		}
		if err == nil {
			if again {
				p.holds.giveUp(nil)
			}
			for _, l := range p.holds.lost {
				p.c.opts.Logger.Error("retention has deleted an open dead letter, which held its key or waited for "+
					"another one, so its event is missing", "topic", p.topic, "partition", p.id, "id", l.id,
					"offset", l.offset)
			}
			p.holds.lost = nil
			p.metrics.Held(len(p.holds.keys))
			return true
		}
		if over.Err() == nil {
			p.c.opts.Logger.Warn("reading the dead letters that hold their keys failed, so the partition waits",
				"topic", p.topic, "partition", p.id, "error", err.Error())
		}
		sleep(over, time.Second)
	}
	return false
}

// resume handles the waiting letters of each key that is not held any more.
func (p *partition) resume(work, over context.Context) bool {
	for _, hash := range p.holds.free() {
		if !p.drain(work, over, hash) {
			return false
		}
	}
	return true
}

// inOrder handles the record, or lets it wait for the letters of its key. It returns false if the assignment ended
// before the record was done.
func (p *partition) inOrder(work, over context.Context, m Message) bool {
	hash := keyHash(m.Key)
	for waits := false; ; waits = true {
		if p.holds.isDismissed(m) {
			p.logger(m).Warn("the record has a dead letter that was dismissed, so the record is not handled")
			return true
		}
		// A wait for another key's letter may have read the topic and freed this key.
		if p.holds.released(hash) != nil && !p.drain(work, over, hash) {
			return false
		}
		if len(p.holds.keys[hash]) > 0 && len(p.holds.firsts(hash, m.ID)) == 0 && (p.recent.has(m.ID) ||
			p.holds.queued(hash, m.ID)) {
			return true // a repeat
		}
		if len(p.holds.origins) < p.c.opts.HoldKeys || len(p.holds.firsts(hash, m.ID)) > 0 {
			break
		}
		if !waits {
			p.logger(m).Error("as many letters hold keys, or wait for others, as Options.HoldKeys allows, so the " +
				"partition waits; dismiss letters, or raise the number and restart")
		}
		sleep(over, holdEvery)
		if !p.refresh(over) || !p.resume(work, over) {
			return false
		}
	}
	if opens := p.holds.first(hash); opens != nil && len(p.holds.firsts(hash, m.ID)) == 0 {
		if !p.bury(work, over, letter{
			Message: m, reason: "a dead letter of the key is open: event " + opens.id, class: Waiting,
			waitsFor: opens.id,
		}) {
			return false
		}
		p.holds.put(hash, m.ID, m.Offset, true)
		return true
	}
	return p.first(work, over, m, hash) && p.drain(work, over, hash)
}

// first tries an event that no other event of its key precedes. Its earlier letters end here: the event is handled, or
// has a newer letter.
func (p *partition) first(work, over context.Context, m Message, hash string) bool {
	before := p.holds.firsts(hash, m.ID)
	switch p.deal(work, over, m) {
	case unfinished:
		return false
	case buried:
		newer := p.holds.put(hash, m.ID, m.Offset, false)
		before = slices.DeleteFunc(before, func(l *held) bool { return l == newer })
		p.metrics.Held(len(p.holds.keys))
	}
	for _, l := range before {
		if !p.release(work, over, l) {
			return false
		}
	}
	return true
}

// drain handles the waiting letters of a key that no first letter holds, in the order of their records, until one
// fails, which is a first letter then. No record of the partition is handled meanwhile, so later records are handled
// after them.
func (p *partition) drain(work, over context.Context, hash string) bool {
	for l := p.holds.released(hash); l != nil; l = p.holds.released(hash) {
		m, ok := p.reread(over, l)
		switch {
		case over.Err() != nil:
			return false
		case !ok:
			p.c.opts.Logger.Error("a dead letter that waited for another one, and its record, no longer exist, so its "+
				"event is missing", "topic", p.topic, "partition", p.id, "id", l.id, "offset", l.offset)
			p.holds.drop(l)
			continue
		}
		switch p.deal(work, over, m) {
		case unfinished:
			return false
		case buried:
			l.waiting, l.at, l.gone = false, nil, false
		case handled:
			if !p.release(work, over, l) {
				return false
			}
		}
		p.moved()
	}
	p.metrics.Held(len(p.holds.keys))
	return true
}

// reread returns the record of a letter: from the letter, or from its topic if the letter was cut. It returns false if
// neither exists any more, or the assignment is over.
func (p *partition) reread(over context.Context, l *held) (Message, bool) {
	for ; over.Err() == nil; sleep(over, time.Second) {
		if !p.locate(over, l) {
			return Message{}, false
		}
		if p.holds.origins[l.origin] != l {
			return Message{}, false // expired
		}
		var record Message
		var found bool
		var err error
		if !l.gone {
			record, found, err = p.c.recordAt(over, p.c.opts.DeadLetterTopic(p.topic), l.at.partition, l.at.offset)
		}
		if err == nil && found && first(record.Headers, HeaderCut) == "" {
			m, _ := p.c.read(p.original(record, l))
			m.ID = l.id
			return m, true
		}
		if err == nil {
			record, found, err = p.c.recordAt(over, p.topic, p.id, l.offset)
		}
		if err == nil {
			m, _ := p.c.read(record)
			// The topic may have been created again, and Options.ID may be another one than at the letter's time.
			found = found && (m.ID == l.id || l.listed != "" && listedID(record.Headers, m.ID) == l.listed)
			m.ID = l.id
			return m, found
		}
		p.c.opts.Logger.Warn("reading a dead letter failed, so the partition waits",
			"topic", p.topic, "partition", p.id, "id", l.id, "error", err.Error())
	}
	return Message{}, false
}

// locate finds a letter that this process has written in the dead-letter topic, or finds out that it no longer exists.
// A new leader may not know at once that the letter is committed, as with maxStrikes.
func (p *partition) locate(over context.Context, l *held) bool {
	for tries := 0; l.at == nil && !l.gone && p.holds.origins[l.origin] == l; tries++ {
		if tries == maxStrikes {
			p.c.opts.Logger.Error("the dead-letter topic has lost a letter that was written",
				"topic", p.topic, "partition", p.id, "id", l.id, "offset", l.offset)
			p.holds.giveUp(l)
			return true
		}
		if tries > 0 {
			sleep(over, time.Second)
		}
		if !p.refresh(over) {
			return false
		}
	}
	return true
}

// original is the record of a letter as it was in its topic.
func (p *partition) original(record Message, l *held) Message {
	ms, _ := strconv.ParseInt(first(record.Headers, HeaderTimestamp), 10, 64)
	return Message{
		Topic: p.topic, Partition: p.id, Offset: l.offset, Key: record.Key, Value: record.Value,
		Time: time.UnixMilli(ms),
		Headers: slices.DeleteFunc(record.Headers, func(h Header) bool {
			return strings.HasPrefix(h.Key, headerPrefix)
		}),
	}
}

// recordAt reads one record.
func (c *Consumer) recordAt(
	ctx context.Context, topic string, partition int, offset int64,
) (record Message, found bool, err error) {
	info, err := c.cluster.topic(ctx, topic)
	if err != nil {
		return record, false, err
	}
	records, next, err := c.cluster.fetch(ctx, topicPartition{topic, partition}, info.leaders[partition], offset)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return record, false, nil
	case err != nil:
		return record, false, err
	case next == offset:
		return record, false, fmt.Errorf("no answer about offset %d yet", offset)
	case len(records) == 0 || records[0].Offset != offset:
		return record, false, nil
	}
	return records[0], true, nil
}

// release writes, for as long as it takes, the mark of a letter that does not hold its key any more, in the letter's
// partition, and forgets it. dead-letter shows it as retried.
func (p *partition) release(work, over context.Context, l *held) bool {
	if !p.locate(over, l) {
		return false
	}
	if l.gone { // there is nothing to mark
		p.holds.drop(l)
	}
	for p.holds.origins[l.origin] == l {
		err := p.c.writeHandledMark(work, p.c.opts.DeadLetterTopic(p.topic), l)
		if err == nil {
			p.c.opts.Logger.Info("a dead letter does not hold its key any more",
				"topic", p.topic, "partition", p.id, "id", l.id, "offset", l.offset)
			p.holds.drop(l)
			return true
		}
		p.c.opts.Logger.Error("marking a dead letter as handled failed, so the partition waits",
			"topic", p.topic, "partition", p.id, "id", l.id, "error", err.Error())
		if sleep(over, time.Second); over.Err() != nil {
			return false
		}
	}
	return true
}

// writeHandledMark writes the mark of a handled letter.
func (c *Consumer) writeHandledMark(ctx context.Context, topic string, l *held) error {
	header := func(name, value string) Header { return Header{Key: name, Value: []byte(value)} }
	return c.cluster.write(ctx, Message{
		Topic: topic, Partition: l.at.partition, Time: time.Now(), Key: []byte(l.origin), Value: []byte(markPublished),
		Headers: []Header{
			header("id", l.listed), header(markPosition, l.origin), header(markGroup, c.opts.Group),
			header(markHeader, markPublished), header(markAttempt, "handled"), header(markHandled, "true"),
		},
	})
}
