package consumer

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// generation commits the finished offsets of its own partitions. The broker refuses the commits of a generation that is
// over.
type generation struct {
	c          *Consumer
	gen        *kafka.Generation
	topics     []string       // that the member has joined for
	assigned   map[string]int // partitions that this member, as the leader, has distributed; nil: it does not lead
	partitions sync.WaitGroup
	wake       chan struct{}
	progress   []*progress
	ids        *topicIDs

	mu       sync.Mutex
	finished map[string]map[int]int64 // next offsets, not committed yet
}

// start starts a goroutine for each assigned partition, one that commits, and two that watch. They end with the
// generation, and running waits for them. end ends Run, leave the membership.
func (g *generation) start(
	ctx context.Context, end context.CancelCauseFunc, leave context.CancelFunc, running *sync.WaitGroup,
) {
	c, gen := g.c, g.gen
	for topic, assignments := range gen.Assignments {
		for _, a := range assignments {
			g.progress = append(g.progress, &progress{
				status: PartitionStatus{
					Topic: topic, Partition: a.ID, Next: a.Offset, Lag: -1, Progress: time.Now(),
				},
				metrics: c.opts.Metrics.Partition(c.opts.Group, topic, a.ID),
			})
			seen := g.progress[len(g.progress)-1]
			seen.metrics.Progress(time.Now())
			running.Add(1)
			g.partitions.Add(1)
			gen.Start(func(over context.Context) {
				defer running.Done()
				defer g.partitions.Done()
				defer seen.metrics.End()
				p := &partition{
					c: c, topic: topic, id: a.ID, next: a.Offset, recent: newRecent(c.opts.Recent),
					finish: g.recordDone, commit: g.commitOffset, progress: seen, ids: g.ids,
				}
				if err := p.consume(ctx, over); err != nil {
					end(err)
				}
			})
		}
	}
	c.members.join(gen.ID, g.progress)
	topics := func(over context.Context) {
		if g.watchTopics(over) {
			leave()
		}
	}
	for _, work := range []func(over context.Context){g.commitAll, g.watch, g.readIDs, topics} {
		running.Add(1)
		gen.Start(func(over context.Context) {
			defer running.Done()
			work(over)
		})
	}
	c.opts.Logger.Info("the consumer group has a new generation",
		"group", c.opts.Group, "generation", gen.ID, "partitions", len(gen.Assignments))
}

// recordDone records that the records before next are done.
func (g *generation) recordDone(topic string, partition int, next int64) {
	g.mu.Lock()
	if g.finished[topic] == nil {
		g.finished[topic] = map[int]int64{}
	}
	g.finished[topic][partition] = next
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// commitOffset commits one offset now.
func (g *generation) commitOffset(topic string, partition int, next int64) error {
	return g.commitOffsets(map[string]map[int]int64{topic: {partition: next}})
}

// commitOffsets commits next offsets, each with the id of its topic.
func (g *generation) commitOffsets(offsets map[string]map[int]int64) error {
	req := &kafka.OffsetCommitRequest{
		GroupID: g.c.opts.Group, GenerationID: int(g.gen.ID), MemberID: g.gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{},
	}
	for topic, partitions := range offsets {
		id := g.ids.now[topic] // known before the first record is read
		for partition, next := range partitions {
			req.Topics[topic] = append(req.Topics[topic],
				kafka.OffsetCommit{Partition: partition, Offset: next, Metadata: id.stored()})
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitLimit)
	defer cancel()
	answer, err := answered(ctx, g.c.client.OffsetCommit, req)
	if err != nil {
		return err
	}
	for _, partitions := range answer.Topics {
		for _, p := range partitions {
			err = errors.Join(err, p.Error)
		}
	}
	return err
}

const (
	commitLimit = 10 * time.Second
	// commitPause is the least time between two commits. Without it a member that is behind would spend more of the
	// broker's time on commits than on records. After a crash at most so much is delivered again.
	commitPause = 100 * time.Millisecond
)

// commitAll commits at once if the last commit is commitPause ago. Offsets that are finished meanwhile are part of the
// next commit. The last commit waits for the running handlers.
func (g *generation) commitAll(over context.Context) {
	for {
		select {
		case <-g.wake:
			g.commit()
			sleep(over, commitPause)
		case <-over.Done():
			g.partitions.Wait()
			g.commit()
			g.c.members.leave(g.gen.ID)
			return
		}
	}
}

// commit leaves offsets that it could not commit to the next commit. If none follows, the records are delivered again
// and recognized.
func (g *generation) commit() {
	g.mu.Lock()
	offsets := g.finished
	g.finished = map[string]map[int]int64{}
	g.mu.Unlock()
	err := g.commitOffsets(offsets)
	if err == nil {
		return
	}
	g.c.opts.Logger.Warn("committing offsets failed", "group", g.c.opts.Group, "error", err.Error())
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, partitions := range offsets {
		maps.Copy(partitions, g.finished[topic]) // newer
		g.finished[topic] = partitions
	}
}
