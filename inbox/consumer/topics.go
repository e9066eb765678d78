package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// topicsEvery is how often the topics are looked at, and how long the transport may answer from its memory.
const topicsEvery = 3 * time.Second

// absent is why a topic that does not exist cannot be read.
const absent = "it does not exist"

// topics are the partitions of the topics that exist, as far as one answer of a broker knows.
type topics struct {
	partitions map[string]int
	missing    map[string]string // why a topic cannot be read
	unclear    map[string]bool   // the answer has another error for the topic
}

func (t topics) same(as topics) bool {
	return maps.Equal(t.partitions, as.partitions) && maps.Equal(t.missing, as.missing) &&
		maps.Equal(t.unclear, as.unclear)
}

// lookUp asks for the topics of the options, and for others.
func (c *Consumer) lookUp(ctx context.Context, others []string) (t topics, err error) {
	names := slices.Concat(c.opts.Topics, others)
	answer, err := answered(ctx, c.client.Metadata, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return t, err
	}
	t.partitions, t.missing, t.unclear = map[string]int{}, map[string]string{}, map[string]bool{}
	for _, about := range answer.Topics {
		switch {
		case about.Error == nil:
			t.partitions[about.Name] = len(about.Partitions)
		case errors.Is(about.Error, kafka.UnknownTopicOrPartition):
			t.missing[about.Name] = absent
		case errors.Is(about.Error, kafka.TopicAuthorizationFailed), errors.Is(about.Error, kafka.InvalidTopic):
			t.missing[about.Name] = about.Error.Error()
		default:
			t.unclear[about.Name] = true
		}
	}
	return t, nil
}

// existing returns the topics that exist, sorted. A topic that is unclear exists as it did before.
func (t topics) existing(of, before []string) []string {
	there := slices.DeleteFunc(slices.Clone(of), func(name string) bool {
		return t.partitions[name] == 0 && (!t.unclear[name] || !slices.Contains(before, name))
	})
	slices.Sort(there)
	return slices.Compact(there)
}

// awaitTopics returns the topics that exist, once there is one, nil if ctx ends before.
func (c *Consumer) awaitTopics(ctx context.Context) []string {
	for ctx.Err() == nil {
		t, err := c.lookUp(ctx, nil)
		if err == nil {
			c.reportMissing(t)
			if there := t.existing(c.opts.Topics, nil); len(there) > 0 {
				return there
			}
		} else if ctx.Err() == nil {
			c.opts.Logger.Warn("looking at the topics failed", "group", c.opts.Group, "error", err.Error())
		}
		sleep(ctx, time.Second)
	}
	return nil
}

// reportMissing keeps the topics that cannot be read for Status and Ready, and logs each change.
func (c *Consumer) reportMissing(t topics) {
	missing := map[string]string{}
	for _, name := range c.opts.Topics {
		if why := t.missing[name]; why != "" {
			missing[name] = why
		}
	}
	before := c.members.misses(missing)
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if before[name] != missing[name] {
			c.opts.Logger.Warn("a topic cannot be read; the others are consumed meanwhile",
				"group", c.opts.Group, "topic", name, "error", missing[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if missing[name] == "" {
			if before[name] == absent {
				c.members.made(name)
			}
			c.opts.Logger.Info("the topic can be read now", "group", c.opts.Group, "topic", name)
		}
	}
}

// assigned is what the leader of the group has distributed. A member that was not made the leader knows nothing.
type assigned struct {
	mu         sync.Mutex
	partitions map[string]int // nil for a member that does not lead
}

// balancer notes what it distributes. kafka-go reads the partitions before, from a broker that may not know all: so a
// change shows against this, and not against what was read at another time.
type balancer struct {
	kafka.GroupBalancer
	*assigned
}

// AssignGroups is called in the leader only.
func (b balancer) AssignGroups(
	members []kafka.GroupMember, partitions []kafka.Partition,
) kafka.GroupMemberAssignments {
	counts := map[string]int{}
	for _, m := range members {
		for _, topic := range m.Topics {
			counts[topic] = 0
		}
	}
	for _, p := range partitions {
		counts[p.Topic]++
	}
	b.mu.Lock()
	b.partitions = counts
	b.mu.Unlock()
	return b.GroupBalancer.AssignGroups(members, partitions)
}

// take returns what was distributed for the generation that begins.
func (a *assigned) take() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := a.partitions
	a.partitions = nil
	return counts
}

// watchTopics returns when the generation has to end: with true if this member has to join for other topics, with false
// if the leader has to distribute other partitions. Two answers in a row have to agree: a broker that has just started
// knows less than the others.
func (g *generation) watchTopics(over context.Context) (rejoin bool) {
	var before topics
	for {
		if sleep(over, topicsEvery); over.Err() != nil {
			return false
		}
		if topic := g.renewed(over); topic != "" {
			g.c.opts.Logger.Warn("a topic was deleted and made again; joining the group again",
				"group", g.c.opts.Group, "topic", topic)
			return false
		}
		t, err := g.c.lookUp(over, slices.Collect(maps.Keys(g.assigned)))
		if err != nil {
			continue // the heartbeats end the generation if the broker does not come back
		}
		agreed := t.same(before)
		if before = t; !agreed {
			continue
		}
		g.c.reportMissing(t)
		if there := t.existing(g.c.opts.Topics, g.topics); len(there) > 0 && !slices.Equal(there, g.topics) {
			g.c.opts.Logger.Info("the topics that can be read have changed; joining the group again",
				"group", g.c.opts.Group, "topics", strings.Join(there, " "))
			return true
		}
		if change := t.differs(g.assigned); change != "" {
			g.c.opts.Logger.Info("partitions have changed; the group distributes them again",
				"group", g.c.opts.Group, "change", change)
			return false
		}
	}
}

// differs names a topic that has other partitions than were distributed. One that cannot be read differs in nothing.
func (t topics) differs(from map[string]int) string {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if now, there := t.partitions[name]; there && now != from[name] {
			return fmt.Sprintf("%s: %d partitions, %d distributed", name, now, from[name])
		}
	}
	return ""
}
