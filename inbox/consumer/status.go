package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Status is the state of a consumer.
type Status struct {
	Group      string            `json:"group"`
	Generation int32             `json:"generation"` // of the group; 0 before this member has joined
	Since      time.Time         `json:"since"`      // of this state: joined, or without partitions
	Partitions []PartitionStatus `json:"partitions"` // that are assigned, by topic and number
	// Missing are topics that do not exist, or cannot be looked at. The others are consumed.
	Missing []string `json:"missing,omitempty"`
}

// PartitionStatus is how far one assigned partition is handled.
type PartitionStatus struct {
	Topic     string    `json:"topic"`
	Partition int       `json:"partition"`
	Next      int64     `json:"next"`     // offset of the first record that is not done; negative: not known yet
	Lag       int64     `json:"lag"`      // records that are not done, at most ten seconds ago; -1: not known yet
	Progress  time.Time `json:"progress"` // when the last record was done, or nothing waited

	// Of the record that is being handled, if there is one.
	EventID   string    `json:"event_id,omitzero"`
	EventTime time.Time `json:"event_time,omitzero"`
	Attempt   int       `json:"attempt,omitzero"`
	Error     string    `json:"error,omitzero"` // of the attempt before

	// Since when the record waits for something that it is not the cause of; zero: it does not.
	Waiting time.Time `json:"waiting,omitzero"`
	// Letters is the number of dead letters before the record that have its cause, see Options.Breaker; 0: fewer.
	Letters int `json:"letters,omitzero"`
}

// Waits reports whether there is something to handle.
func (p PartitionStatus) Waits() bool { return p.Lag > 0 || p.EventID != "" }

// members is the state of the consumer's membership and of its partitions.
type members struct {
	mu         sync.Mutex
	running    bool
	generation int32
	since      time.Time
	partitions []*progress
	last       []*progress       // before the latest change
	missing    map[string]string // why topics cannot be read
	seen       map[string]bool   // topics that exist, or have existed since Run began
	young      map[string]bool   // topics that were made while the consumer ran
}

// progress is the state of one assigned partition.
type progress struct {
	mu      sync.Mutex
	status  PartitionStatus
	metrics *inbox.PartitionMetrics
}

// made notes that the topic was made while the consumer ran: a group that begins at the end begins at its beginning.
func (m *members) made(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(topic)
}

func (m *members) note(topic string) {
	if m.young == nil {
		m.young = map[string]bool{}
	}
	m.young[topic] = true
}

// look notes which topics exist, and returns the new ones, which are young unless it is called for the first time.
func (m *members) look(t topics) (added []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.seen == nil
	if first {
		m.seen = map[string]bool{}
	}
	for _, name := range t.known() {
		if m.seen[name] || t.missing[name] == absent {
			continue
		}
		m.seen[name] = true
		added = append(added, name)
		if !first {
			m.note(name)
		}
	}
	return added
}

// existing are the topics that have been seen.
func (m *members) existing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.seen))
}

func (m *members) isYoung(topic string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.young[topic]
}

// Status returns the consumer's state, at any time.
func (c *Consumer) Status() Status {
	c.members.mu.Lock()
	defer c.members.mu.Unlock()
	s := Status{Group: c.opts.Group, Generation: c.members.generation, Since: c.members.since}
	for _, p := range c.members.partitions {
		s.Partitions = append(s.Partitions, p.read())
	}
	s.Missing = slices.Sorted(maps.Keys(c.members.missing))
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return s
}

// Ready returns nil while the consumer does its work, otherwise the reason: Run is not running, a topic does not exist,
// the group was not joined yet or has had no generation for Options.Stall, a partition in which records wait has made
// no progress for as long, or a record waits for something that it is not the cause of for ten seconds, or because of
// Options.Breaker. It is for a readiness probe and for alerts. A liveness probe should not ask it: a restart does not
// repair the system that a handler waits for.
func (c *Consumer) Ready() error {
	c.members.mu.Lock()
	running, missing := c.members.running, c.members.missing
	c.members.mu.Unlock()
	if !running {
		return errors.New("consumer: Run is not running")
	}
	for _, topic := range slices.Sorted(maps.Keys(missing)) {
		return fmt.Errorf("consumer: the topic %s cannot be read: %s", topic, missing[topic])
	}
	return c.Status().ready(time.Now(), c.opts.Stall)
}

func (s Status) ready(now time.Time, stall time.Duration) error {
	away := now.Sub(s.Since)
	switch {
	case s.Generation == 0:
		return fmt.Errorf("consumer: the group %s was not joined yet, since %s", s.Group, away.Round(time.Second))
	case s.Generation < 0 && away > stall:
		return fmt.Errorf("consumer: the group %s has had no generation for %s", s.Group, away.Round(time.Second))
	}
	for _, p := range s.Partitions {
		age := now.Sub(p.Progress)
		outside := !p.Waiting.IsZero() && now.Sub(p.Waiting) > min(stall, outsideLimit)
		if p.Waits() && (age > stall || outside || p.Letters > 0) {
			e := fmt.Sprintf("consumer: %s partition %d: no progress for %s, at offset %d, %d records wait",
				p.Topic, p.Partition, age.Round(time.Second), p.Next, p.Lag)
			if p.EventID != "" {
				e += fmt.Sprintf("; event %q, attempt %d", p.EventID, p.Attempt)
			}
			if p.Letters > 0 {
				e += fmt.Sprintf("; the %d dead letters before it have its cause", p.Letters)
			}
			if p.Error != "" {
				e += ": " + p.Error
			}
			return errors.New(e)
		}
	}
	return nil
}

// outsideLimit is how long a record may wait for something outside before Ready says so.
const outsideLimit = 10 * time.Second

// run notes that Run begins or ends.
func (m *members) run(running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.generation, m.since = running, 0, time.Now()
	m.partitions, m.last, m.missing, m.seen = nil, nil, nil, nil
}

// misses notes why topics cannot be read, and returns the reasons before.
func (m *members) misses(missing map[string]string) (before map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.missing = m.missing, missing
	return before
}

// join notes a new generation. A partition that stays with the member has made no progress by that.
func (m *members) join(generation int32, partitions []*progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	earlier := slices.Concat(m.partitions, m.last)
	for _, p := range partitions {
		for _, before := range earlier {
			p.continues(before.read())
		}
	}
	m.generation, m.since, m.partitions = generation, time.Now(), partitions
}

// keep notes the partitions that the member has still. Without one it may be a member no more.
func (m *members) keep(partitions []*progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partitions, m.last = partitions, m.partitions; len(partitions) == 0 && len(m.last) > 0 {
		m.generation, m.since = -1, time.Now()
	}
}

// assigned returns the partitions of the member.
func (m *members) assigned() []*progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.partitions)
}

// continues takes over the time of the partition's last progress.
func (p *progress) continues(before PartitionStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := &p.status; s.Topic == before.Topic && s.Partition == before.Partition {
		s.Progress = before.Progress
	}
}

func (p *progress) read() PartitionStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// begins notes an attempt at the record.
func (p *progress) begins(m Message, before error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	s.EventID, s.EventTime, s.Attempt, s.Error = m.ID, m.Time, m.Attempt, ""
	if before != nil {
		s.Error = before.Error()
	}
	p.metrics.Oldest(m.Time)
}

// waits notes that the record is not the cause of its failure; zero: it may be.
func (p *progress) waits(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Waiting.IsZero() || now.IsZero() {
		p.status.Waiting = now
	}
}

// pauses notes that so many dead letters before the record have its cause.
func (p *progress) pauses(letters int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Letters = letters
}

// done notes that the records before next are handled or dead-lettered. A record without an id is not an event, or none
// whose age means something.
func (p *progress) done(next int64, records ...Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	done := int64(1)
	if s.Next >= 0 {
		done = next - s.Next
	}
	if s.Lag >= 0 {
		s.Lag = max(s.Lag-done, 0)
	}
	now := time.Now()
	s.Next, s.Progress = next, now
	s.idle()
	p.metrics.Done(now)
	for _, m := range records {
		if m.ID != "" {
			p.metrics.Age(now.Sub(m.Time))
		}
	}
	p.metrics.Lag(s.Lag)
}

// idle notes that no record is being handled.
func (p *PartitionStatus) idle() {
	p.EventID, p.EventTime, p.Attempt, p.Error, p.Waiting, p.Letters = "", time.Time{}, 0, "", time.Time{}, 0
}

// moved notes that a waiting letter is done, of which the offset says nothing.
func (p *progress) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	s.Progress = time.Now()
	s.idle()
	p.metrics.Done(s.Progress)
}

// settled notes the group's first offset in the partition.
func (p *progress) settled(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Next = next
}

// looked notes the first offset and the end of the partition.
func (p *progress) looked(first, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	if s.Next == atFirst {
		s.Next = first
	}
	s.Lag = max(end-max(s.Next, first), 0)
	if !s.Waits() {
		s.Progress = time.Now()
		p.metrics.Progress(s.Progress)
	}
	p.metrics.Lag(s.Lag)
}
