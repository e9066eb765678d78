package consumer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// membership is the time in which the consumer is a member of its group for one list of topics. The group's protocol is
// cooperative (KIP-429): a partition that stays with the member is handled on while the group distributes partitions,
// and a partition is given away after its handler has ended and its offset is committed.
type membership struct {
	c       *Consumer
	topics  topics
	member  *kgo.Client
	joined  chan struct{} // closed once member is set
	reading *reading
	ctx     context.Context //nolint:containedctx // of Run: the group's callbacks begin handlers
	end     context.CancelCauseFunc
	work    sync.WaitGroup
	wake    chan struct{} // there are offsets to commit
	look    chan struct{} // there are new partitions

	mu       sync.Mutex
	leaving  bool
	assigned map[topicPartition]*assignment
	finished map[topicPartition]stored // not committed yet

	committing sync.Mutex // one commit at a time, so that none is late
}

// assignment is a partition that is the member's.
type assignment struct {
	over  context.CancelFunc
	ended chan struct{}
	*progress
}

// join is a member of the group for these topics, until ctx ends or others can be read; these it returns.
func (c *Consumer) join(ctx context.Context, t topics, end context.CancelCauseFunc) (next *topics, err error) {
	clients, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	m := &membership{
		c: c, topics: t, ctx: ctx, end: end, joined: make(chan struct{}),
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
		assigned: map[topicPartition]*assignment{}, finished: map[topicPartition]stored{},
	}
	if m.reading, err = newReading(clients, kill, c.opts); err != nil {
		return nil, err
	}
	defer m.reading.client.Close()
	if m.member, err = c.opts.newClient(clients, kill, m.options()...); err != nil {
		return nil, err
	}
	m.member.PauseFetchTopics(t.names...) // reading reads
	close(m.joined)
	var watching sync.WaitGroup
	reading, stop := context.WithCancel(clients)
	watching.Go(func() { m.reading.run(reading) })
	watching.Go(func() { m.reportErrors(reading) })
	watching.Go(func() { m.watchEnds(reading) })
	watching.Go(func() { m.commitAll(reading) })
	watch, leave := context.WithCancel(ctx)
	defer context.AfterFunc(clients, leave)()
	next = c.watchTopics(watch, t)
	stop()
	watching.Wait()
	m.leave(kill)
	if next == nil && ctx.Err() == nil { // the clients have ended
		sleep(ctx, time.Second)
		next = &t
	}
	return next, nil
}

func (m *membership) options() []kgo.Opt {
	o := m.c.opts
	return []kgo.Opt{
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(m.topics.names...), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.MetadataMaxAge(topicsEvery),
		kgo.OnPartitionsAssigned(m.assign), kgo.OnPartitionsRevoked(m.revoke), kgo.OnPartitionsLost(m.lose),
		kgo.HeartbeatInterval(heartbeat), kgo.RebalanceTimeout(rebalanceTimeout),
		// The last heartbeat is before the member leaves, and its handlers may go on for Drain.
		kgo.SessionTimeout(o.Drain + 5*heartbeat),
	}
}

// reportErrors says why the group cannot be joined, or was left. The client pauses before it tries again.
func (m *membership) reportErrors(ctx context.Context) {
	for ctx.Err() == nil {
		for _, e := range m.member.PollFetches(ctx).Errors() {
			if m.ctx.Err() == nil && ctx.Err() == nil {
				m.c.opts.Logger.Warn("joining the consumer group failed",
					"group", m.c.opts.Group, "error", e.Err.Error())
			}
		}
	}
}

// assign begins with the partitions that are new to the member. It is called in each generation.
func (m *membership) assign(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	c, o := m.c, m.c.opts
	<-m.joined
	_, generation := m.member.GroupMetadata()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving {
		return
	}
	begins := &beginning{known: make(chan struct{})}
	over, cancel := context.WithCancel(context.WithoutCancel(m.ctx))
	of := partitionsIn(added)
	var running sync.WaitGroup
	for _, tp := range of {
		running.Add(1)
		m.start(tp, begins, running.Done)
	}
	m.work.Go(func() { begins.ask(over, c, of) })
	m.work.Go(func() { running.Wait(); cancel() })
	c.members.join(generation, m.seen())
	select {
	case m.look <- struct{}{}:
	default:
	}
	o.Logger.Info("the consumer group has a new generation",
		"group", o.Group, "generation", generation, "partitions", len(m.assigned))
}

// start begins with a partition.
func (m *membership) start(tp topicPartition, begins *beginning, ended func()) {
	c, o := m.c, m.c.opts
	over, cancel := context.WithCancel(context.WithoutCancel(m.ctx))
	next := int64(atFirst)
	if o.FromEnd {
		next = atEnd
	}
	a := &assignment{over: cancel, ended: make(chan struct{}), progress: &progress{
		status:  PartitionStatus{Topic: tp.topic, Partition: tp.id, Next: next, Lag: -1, Progress: time.Now()},
		metrics: o.Metrics.Partition(o.Group, tp.topic, tp.id),
	}}
	a.metrics.Progress(time.Now())
	m.assigned[tp] = a
	p := &partition{
		c: c, topicPartition: tp, next: next, recent: newRecent(o.Recent), open: m.reading.open,
		finish: m.done, commit: m.commitOne, progress: a.progress, from: begins, of: m.topics.ids[tp.topic],
	}
	m.work.Go(func() {
		defer ended()
		defer close(a.ended)
		defer a.metrics.End()
		if err := p.consume(m.ctx, over); err != nil {
			m.end(err)
		}
	})
}

// partitionsIn lists partitions as the client's callbacks have them.
func partitionsIn(of map[string][]int32) (list []topicPartition) {
	for topic, ids := range of {
		for _, id := range ids {
			list = append(list, topicPartition{topic, int(id)})
		}
	}
	return list
}

// seen returns the progress of the assigned partitions.
func (m *membership) seen() (of []*progress) {
	for _, a := range m.assigned {
		of = append(of, a.progress)
	}
	return of
}

// revoke gives partitions away: their handlers end, and their offsets are committed. The member's heartbeats go on
// meanwhile, except when it leaves.
func (m *membership) revoke(ctx context.Context, _ *kgo.Client, given map[string][]int32) {
	of := partitionsIn(given)
	m.stop(of)
	m.commit(ctx)
	m.forget(of)
}

// lose ends with partitions that are another member's already. Their offsets are not committed.
func (m *membership) lose(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	of := partitionsIn(lost)
	m.stop(of)
	m.forget(of)
}

// stop ends the handlers of partitions, and waits for them.
func (m *membership) stop(of []topicPartition) {
	m.mu.Lock()
	var ending []*assignment
	for _, tp := range of {
		if a := m.assigned[tp]; a != nil {
			ending = append(ending, a)
			delete(m.assigned, tp)
		}
	}
	seen := m.seen()
	m.mu.Unlock()
	for _, a := range ending {
		a.over()
	}
	for _, a := range ending {
		<-a.ended
	}
	m.c.members.keep(seen)
}

// leave ends with all partitions, as revoke does, and then leaves the group. It does so by another connection than the
// member's: a broker may be waiting there until all members have joined, and the client waits for its answer.
func (m *membership) leave(kill func()) {
	m.mu.Lock()
	m.leaving = true
	all := slices.Collect(maps.Keys(m.assigned))
	m.mu.Unlock()
	m.stop(all)
	m.work.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), leaveLimit)
	defer cancel()
	m.commit(ctx)
	member, _ := m.member.GroupMetadata()
	kill()
	m.member.Close()
	if err := m.c.cluster.leave(ctx, m.c.opts.Group, member); err != nil {
		m.c.opts.Logger.Info("leaving the consumer group failed; it notices after the session's timeout",
			"group", m.c.opts.Group, "error", err.Error())
	}
}

// leaveLimit is how long the last commit and the farewell may take.
const leaveLimit = 3 * time.Second
