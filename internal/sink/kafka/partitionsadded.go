package kafka

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Grown returns the last growth of each topic, the latest first.
func (p *Producer) Grown() []sink.Growth {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []sink.Growth
	for _, t := range p.topics {
		if !t.grown.At.IsZero() {
			all = append(all, t.grown)
		}
	}
	slices.SortFunc(all, func(a, b sink.Growth) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Topic, b.Topic))
	})
	return all
}

// grow takes an answer that names more partitions than are in use.
func (t *topic) grow(c *Config, n int) {
	if t.more != n {
		remedy := c.AwaitGroups(t.name)
		t.grown = sink.Growth{
			Topic: t.name, Before: len(t.partitions), Now: n, At: time.Now(), Next: remedy.Next,
			Commands: remedy.Commands,
		}
		c.Logger.Warn("topic has more partitions now; they are used when everything older is acknowledged, "+
			"and keys move",
			zap.String(logkey.Topic, t.name), zap.Int(logkey.Before, len(t.partitions)), zap.Int(logkey.Now, n),
			zap.String(logkey.Remedy, remedy.Next), zap.Strings(logkey.Commands, remedy.Commands))
	}
	if t.more = n; t.calm() {
		t.adopt(n)
	}
}

// Refresh has the next record of each topic wait until its partitions are asked for. An operator who adds partitions
// during a pause, when no group has lag, relies on it: a record that goes where its key was before, until the next
// answer of metadata, is not ordered with the records after it.
func (p *Producer) Refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.control.refresh, p.control.refreshAt = p.control.refresh+1, time.Now()
	for _, t := range p.topics {
		t.stale = len(t.partitions) > 0
	}
	p.control.wantMetadata()
}
