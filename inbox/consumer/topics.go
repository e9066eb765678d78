package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// topicsEvery is how often the topics are looked at.
const topicsEvery = 3 * time.Second

// absent is why a topic that does not exist cannot be read.
const absent = "it does not exist"

// topics are the topics that exist, as far as one answer of a broker knows.
type topics struct {
	names      []string // that can be read, sorted
	partitions map[string]int
	ids        map[string]topicID
	missing    map[string]string // why a topic cannot be read
	unclear    map[string]bool   // the answer has another error for the topic
}

func (t topics) same(as topics) bool {
	return maps.Equal(t.partitions, as.partitions) && maps.Equal(t.ids, as.ids) &&
		maps.Equal(t.missing, as.missing) && maps.Equal(t.unclear, as.unclear)
}

// lookUp asks for the topics of the options.
func (c *Consumer) lookUp(ctx context.Context) (t topics, err error) {
	infos, err := c.infos(ctx)
	if err != nil {
		return t, err
	}
	t = topics{
		partitions: map[string]int{}, ids: map[string]topicID{}, missing: map[string]string{},
		unclear: map[string]bool{},
	}
	for name, info := range infos {
		switch {
		case info.err == nil:
			t.partitions[name], t.ids[name] = len(info.leaders), info.id
		case errors.Is(info.err, kerr.UnknownTopicOrPartition):
			t.missing[name] = absent
		case errors.Is(info.err, kerr.TopicAuthorizationFailed), errors.Is(info.err, kerr.InvalidTopicException),
			errors.Is(info.err, errNoLetters):
			t.missing[name] = info.err.Error()
		default:
			t.unclear[name] = true
		}
	}
	return t, nil
}

// infos asks for the topics that are named, and for the others that match. A topic whose dead-letter topic does not
// exist is not read: a record that cannot be handled would have no place.
func (c *Consumer) infos(ctx context.Context) (map[string]topicInfo, error) {
	letters := map[string]bool{}
	for _, name := range c.opts.Topics {
		letters[c.opts.DeadLetterTopic(name)] = true
	}
	var ask []string // all
	if c.opts.pattern == nil {
		ask = slices.Concat(c.opts.Topics, slices.Collect(maps.Keys(letters)))
	}
	all, err := c.cluster.topics(ctx, ask)
	if err != nil {
		return nil, err
	}
	infos := map[string]topicInfo{}
	if c.opts.pattern != nil {
		for name := range all {
			letters[c.opts.DeadLetterTopic(name)] = true
		}
		for name, info := range all {
			if !info.internal && !letters[name] && c.opts.pattern.MatchString(name) {
				infos[name] = info
			}
		}
	}
	for _, name := range c.opts.Topics {
		infos[name] = all[name]
	}
	for name, info := range infos {
		if to := c.opts.DeadLetterTopic(name); info.exists() && !all[to].exists() {
			info.err = fmt.Errorf("%w: kafka-topics.sh --bootstrap-server BROKER:9092 --create --topic %s",
				errNoLetters, to)
		} else if !info.exists() {
			info.err = kerr.UnknownTopicOrPartition
		}
		infos[name] = info
	}
	return infos, nil
}

// errNoLetters is why a topic that exists is not read.
var errNoLetters = errors.New("its dead-letter topic does not exist; create it")

// known are the topics that are meant.
func (t topics) known() []string {
	return slices.Concat(slices.Collect(maps.Keys(t.partitions)), slices.Collect(maps.Keys(t.missing)),
		slices.Collect(maps.Keys(t.unclear)))
}

// existing returns the topics that exist, sorted. A topic that is unclear exists as it did before.
func (t topics) existing(before []string) []string {
	there := slices.DeleteFunc(t.known(), func(name string) bool {
		return t.partitions[name] == 0 && (!t.unclear[name] || !slices.Contains(before, name))
	})
	slices.Sort(there)
	return there
}

// awaitTopics returns the topics that exist, once there is one, nil if ctx ends before.
func (c *Consumer) awaitTopics(ctx context.Context) *topics {
	for ctx.Err() == nil {
		t, err := c.lookUp(ctx)
		if err == nil {
			c.reportMissing(t)
			if t.names = t.existing(nil); len(t.names) > 0 {
				return &t
			}
		} else if ctx.Err() == nil {
			c.opts.Logger.Warn("looking at the topics failed", "group", c.opts.Group, "error", err.Error())
		}
		sleep(ctx, time.Second)
	}
	return nil
}

// reportMissing keeps the topics that cannot be read for Status and Ready, logs each change, and notes new topics.
func (c *Consumer) reportMissing(t topics) {
	missing, before := t.missing, c.members.misses(t.missing)
	for _, name := range c.members.look(t) {
		c.opts.Metrics.Expect(c.opts.Group, name)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if before[name] != missing[name] {
			c.opts.Logger.Warn("a topic cannot be read; the others are consumed meanwhile",
				"group", c.opts.Group, "topic", name, "error", missing[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if missing[name] == "" {
			c.opts.Logger.Info("the topic can be read now", "group", c.opts.Group, "topic", name)
		}
	}
}

// watchTopics returns the topics for which the member has to join the group again: others can be read, one was made
// again, or has fewer partitions. (That there are more is noticed by the group's leader.) Two answers in a row have to
// agree: a broker that has just started knows less than the others. It returns nil if ctx ends before.
func (c *Consumer) watchTopics(ctx context.Context, joined topics) *topics {
	before := joined
	for {
		if sleep(ctx, topicsEvery); ctx.Err() != nil {
			return nil
		}
		t, err := c.lookUp(ctx)
		if err != nil {
			continue // the heartbeats end the membership if the broker does not come back
		}
		agreed := t.same(before)
		if before = t; !agreed {
			continue
		}
		c.reportMissing(t)
		t.names = t.existing(joined.names)
		if len(t.names) == 0 {
			continue
		}
		change := t.changed(joined)
		for _, topic := range t.names {
			if t.renewed(topic, joined) {
				c.members.made(topic)
			}
		}
		if change != "" {
			c.opts.Logger.Warn("joining the group again", "group", c.opts.Group, "change", change)
			return &t
		}
	}
}

// changed says why the topics cannot be read on as before; empty: they can.
func (t topics) changed(before topics) string {
	if !slices.Equal(t.names, before.names) {
		return "the topics that can be read are now " + strings.Join(t.names, " ")
	}
	for _, topic := range t.names {
		switch now, was := t.partitions[topic], before.partitions[topic]; {
		case t.renewed(topic, before):
			return fmt.Sprintf("the topic %s was deleted and made again", topic)
		case now < was && now > 0:
			return fmt.Sprintf("the topic %s has %d partitions, and had %d", topic, now, was)
		}
	}
	return ""
}

// renewed reports whether a topic was deleted and made again.
func (t topics) renewed(topic string, before topics) bool {
	now, was := t.ids[topic], before.ids[topic]
	return now != (topicID{}) && was != (topicID{}) && now != was
}
