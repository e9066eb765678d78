package consumer

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// done notes that the records before next are done.
func (m *membership) done(tp topicPartition, next int64) {
	m.mu.Lock()
	m.finished[tp] = stored{next, m.topics.ids[tp.topic]}
	m.mu.Unlock()
	m.awake()
}

// awake has commitAll commit.
func (m *membership) awake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// commitPause is the time between commits.
const commitPause = 100 * time.Millisecond

// commitAll commits the offsets of finished records until ctx ends.
func (m *membership) commitAll(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-m.wake:
			pause := commitPause
			if !m.commit(ctx) {
				pause = time.Second
				m.awake()
			}
			sleep(ctx, pause)
		case <-ctx.Done():
		}
	}
}

// commit leaves offsets that it could not commit to the next commit. If none follows, the records are delivered again
// and recognized.
func (m *membership) commit(ctx context.Context) (done bool) {
	m.committing.Lock()
	defer m.committing.Unlock()
	m.mu.Lock()
	offsets := m.finished
	m.finished = map[topicPartition]stored{}
	m.mu.Unlock()
	if len(offsets) == 0 {
		return true
	}
	err := m.send(ctx, offsets)
	switch {
	case err == nil:
		return true
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration): // the next generation's
	case ctx.Err() == nil:
		m.c.opts.Logger.Warn("committing offsets failed", "group", m.c.opts.Group, "error", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(offsets, m.finished) // newer
	m.finished = offsets
	return false
}

// forget drops the offsets of partitions that were given away and that could not be committed: a later generation
// would accept them, and the new owner may be further on.
func (m *membership) forget(of []topicPartition) {
	m.committing.Lock()
	defer m.committing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tp := range of {
		delete(m.finished, tp)
	}
}

// commitOne commits one offset now.
func (m *membership) commitOne(ctx context.Context, tp topicPartition, next int64) error {
	m.committing.Lock()
	defer m.committing.Unlock()
	return m.send(ctx, map[topicPartition]stored{tp: {next, m.topics.ids[tp.topic]}})
}

// send commits for the generation as it is.
func (m *membership) send(ctx context.Context, offsets map[topicPartition]stored) error {
	member, generation := m.member.GroupMetadata()
	return m.c.cluster.commit(ctx, membershipOf{m.c.opts.Group, member, generation}, offsets)
}
