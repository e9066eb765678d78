package kafka

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ready puts a batch of one record into each partition.
func (p *Producer) ready(parts []*partition) {
	for i, part := range parts {
		keyed(part, fmt.Sprint("k", i))
		part.refresh()
	}
}

// A connection carries five requests at most, none during a pause that the broker asked for, and none while the
// coordinator has to be asked first.
func TestPumpKeepsItsBounds(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(p *Producer, b *broker)
		sent int
	}{
		"idle":          {func(*Producer, *broker) {}, 1},
		"four fly":      {func(_ *Producer, b *broker) { b.inflight = make([]*request, maxInFlight-1) }, 1},
		"five fly":      {func(_ *Producer, b *broker) { b.inflight = make([]*request, maxInFlight) }, 0},
		"throttled":     {func(_ *Producer, b *broker) { b.throttledUntil = time.Now().Add(time.Hour) }, 0},
		"was throttled": {func(_ *Producer, b *broker) { b.throttledUntil = time.Now().Add(-time.Hour) }, 1},
		"suspended for long": {
			func(p *Producer, _ *broker) { p.own.renewed = time.Now().Round(0).Add(-renewLimit) }, 0,
		},
		"no connection": {func(_ *Producer, b *broker) { b.conn = nil }, 0},
	} {
		p := still(t, owned, func(cfg *Config) { cfg.MaxRequestBytes = 10 })
		p.own.begun, p.own.renewed = true, time.Now().Round(0)
		parts := p.partitions(1)
		b := parts[0].broker
		connect(b)
		b.conn.send = make(chan *request, 2*maxInFlight)
		sent := b.conn.send
		test.set(p, b)
		before := len(b.inflight)
		p.ready(parts)
		p.pump(b)
		require.Len(t, sent, test.sent, name)
		require.Len(t, b.inflight, before+test.sent, name)
		require.Equal(t, test.sent, p.flying, name)
	}
}

// A request takes the heads of the ready partitions in turn, as many as fit, and one in any case.
func TestCollectsInTurn(t *testing.T) {
	p := still(t)
	parts := p.partitions(4)
	p.ready(parts)
	b := parts[0].broker
	size := parts[0].queued[0].size()
	for _, test := range []struct {
		room int
		want []int32
	}{
		{size - 1, []int32{0}},
		{size, []int32{0}},
		{2*size - 1, []int32{0}},
		{2 * size, []int32{0, 1}},
		{3 * size, []int32{0, 1, 2}},
		{100 * size, []int32{0, 1, 2, 3}},
	} {
		p.cfg.MaxRequestBytes = test.room
		r := p.collect(b)
		var got []int32
		for _, batch := range r.batches {
			got = append(got, batch.part.index)
		}
		require.Equal(t, test.want, got, "%+v", test)
		for _, part := range parts { // as if it had not been
			part.unready()
			part.unanswered = 0
			part.rewind()
		}
		for _, part := range parts {
			part.refresh()
		}
	}
}

// A partition that was idle for long is probed: its broker may have forgotten the producer.
func TestProbesAfterIdleness(t *testing.T) {
	const idle = time.Minute
	for name, test := range map[string]struct {
		ago    time.Duration
		flying bool
		want   state
	}{
		"at the bound":    {idle, false, normal},
		"past it":         {idle + 1, false, probing},
		"while one flies": {idle + 1, true, normal},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, func(cfg *Config) { cfg.pace.probeAfter = idle })
			parts := p.partitions(1)
			part := parts[0]
			part.state = normal
			if test.flying {
				keyed(part, "before")
				part.take(p.id)
			}
			part.lastAck = time.Now().Add(-test.ago)
			p.ready(parts)
			p.collect(part.broker)
			require.Equal(t, test.want, part.state, name)
		})
	}
}

func TestPartitionSends(t *testing.T) {
	live, later := &transaction{}, &transaction{}
	for name, test := range map[string]struct {
		set  func(part *partition)
		want bool
	}{
		"as it is":        {func(*partition) {}, true},
		"no leader":       {func(part *partition) { part.broker = nil }, false},
		"waiting":         {func(part *partition) { part.waiting = true }, false},
		"nothing pending": {func(part *partition) { part.pending = 0 }, false},
		"its transaction": {func(part *partition) { part.queued[0].tx, part.registered = live, live }, true},
		"a later one":     {func(part *partition) { part.queued[0].tx, part.registered = later, live }, false},
		"not registered":  {func(part *partition) { part.queued[0].tx = live }, false},
		"draining":        {func(part *partition) { part.state = draining }, false},
		"probing, one flies": {
			func(part *partition) { part.inflight = make([]*batch, 1) }, false,
		},
		"four fly": {
			func(part *partition) { part.state, part.inflight = normal, make([]*batch, maxInFlight-1) }, true,
		},
		"five fly": {
			func(part *partition) { part.state, part.inflight = normal, make([]*batch, maxInFlight) }, false,
		},
	} {
		part := led(t, 1)
		test.set(part)
		require.Equal(t, test.want, part.sendable(), name)
	}
}
