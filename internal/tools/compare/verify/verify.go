// Package verify compares the events of two sets of topics: it reads both sides from Kafka, and internal/tools/compare
// matches them.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/compare"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// Options of a comparison.
type Options struct {
	LeftPrefix, RightPrefix string
	// pairs, left to right; without any, the topics that have one of the prefixes
	Topics map[string]string

	IgnoreHeaders    []string
	IgnorePartitions bool
	Timestamps       bool
	// leave out the events of a partition before the first and after the last event that both sides have
	Overlap bool
	Dir     string // for temporary files; the system's if it is empty

	Cluster  wire.Cluster
	Progress progress.Reporter
}

// Run reads both sides to their present ends and compares them.
func Run(ctx context.Context, o Options) (*Report, error) {
	consumer, err := reader.New(o.Cluster)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	defer o.Progress.Wait(progress.Reading(consumer))()
	v := &verifier{reader: consumer, progress: o.Progress}
	if err := v.pair(ctx, o); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "cdc-outbox-verify-")
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Config, Object: "--tmp", Err: err, Next: "Name a directory that can be written to.",
		}
	}
	defer os.RemoveAll(dir)
	c := compare.New(compare.Options{
		Dir: dir, IgnoreHeaders: o.IgnoreHeaders, IgnorePartitions: o.IgnorePartitions, Timestamps: o.Timestamps,
		Overlap: o.Overlap,
	})
	defer c.Close()
	if err := v.read(ctx, c); err != nil {
		return nil, err
	}
	result, err := c.Result()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Fatal, Object: "temporary files", Err: err}
	}
	return v.report(ctx, result)
}

// verifier reads both sides.
type verifier struct {
	reader   *reader.Reader
	progress progress.Reporter
	pairs    [][2]string // topics, by number
	missing  []string    // of these, which do not exist
	removed  []string    // partitions that have lost their beginning, and from before when
}

// pair finds the topics. With prefixes a topic that one side lacks is paired all the same: its events are missing
// there.
func (v *verifier) pair(ctx context.Context, o Options) error {
	for _, left := range slices.Sorted(maps.Keys(o.Topics)) {
		if left == o.Topics[left] {
			return fault.Usage(
				"both sides are the topic "+fault.Printable(left), "give pairs of different topics, --topic left=right",
			)
		}
		v.pairs = append(v.pairs, [2]string{left, o.Topics[left]})
	}
	if len(v.pairs) > 0 {
		return nil
	}
	if o.LeftPrefix == "" && o.RightPrefix == "" {
		return fault.Usage(
			"no topics are named", "give --left-prefix and --right-prefix, or pairs with --topic left=right",
		)
	}
	if o.LeftPrefix == o.RightPrefix {
		return fault.Usage(
			"both sides are the same topics", "give --left-prefix and --right-prefix, or pairs with --topic left=right",
		)
	}
	names, err := v.reader.Topics(ctx)
	if err != nil {
		return err
	}
	v.pairs = pairTopics(names, o.LeftPrefix, o.RightPrefix)
	if len(v.pairs) == 0 {
		return fault.Usage("no topic has one of the prefixes", "kafka-topics.sh --list shows the topics")
	}
	return nil
}

// pairTopics: if one prefix begins with the other, the longer one decides.
func pairTopics(names []string, left, right string) [][2]string {
	rest := map[string]bool{}
	for _, name := range names {
		l, isLeft := strings.CutPrefix(name, left)
		r, isRight := strings.CutPrefix(name, right)
		switch {
		case isRight && (!isLeft || len(right) > len(left)):
			rest[r] = true
		case isLeft:
			rest[l] = true
		}
	}
	var pairs [][2]string
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		pairs = append(pairs, [2]string{left + name, right + name})
	}
	return pairs
}

// read takes the ends of all partitions first, so that both sides are looked at as of about the same moment.
func (v *verifier) read(ctx context.Context, c *compare.Comparison) error {
	var spans [2][][]sink.Span
	var total, done int64
	for side := range spans {
		for _, pair := range v.pairs {
			of, err := v.reader.Spans(ctx, pair[side])
			if errors.Is(err, sink.ErrNoTopic) {
				v.missing = append(v.missing, pair[side])
			} else if err != nil {
				return err
			}
			spans[side] = append(spans[side], of)
			for _, s := range of {
				total += s.End - s.From
			}
		}
	}
	for side := range spans {
		for topic, of := range spans[side] {
			for _, s := range of {
				for m, err := range v.reader.Messages(ctx, s) {
					if err != nil {
						return err
					}
					c.Add(compare.Side(side), recordOf(topic, m))
					if done++; done%1024 == 0 {
						v.progress.Step(progress.Step{
							What: "reading both sides", Done: done, Total: total, About: true, Unit: "records",
						})
					}
				}
				if err := v.noteRemoved(ctx, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// noteRemoved notes a partition of which Kafka has removed records: an event that is on one side only may have been on
// both.
func (v *verifier) noteRemoved(ctx context.Context, s sink.Span) error {
	before, err := v.reader.Removed(ctx, s)
	if err == nil && !before.IsZero() {
		v.removed = append(v.removed, fmt.Sprintf("topic %s partition %d: records from before %s", s.Topic,
			s.Partition, human.Time(before)))
	}
	return err
}

func recordOf(topic int, m *sink.Message) *compare.Record {
	return &compare.Record{
		Topic: topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value,
		Headers: m.Headers,
	}
}

// Report is how the two sides compare.
type Report struct {
	Equal       bool                   `json:"equal"`
	Topics      [][2]string            `json:"topics"`
	Missing     []string               `json:"missing_topics"` // of these, which do not exist
	Removed     []string               `json:"removed"`        // partitions that have lost their beginning
	Records     [2]int64               `json:"records"`
	Matched     int64                  `json:"matched"`
	Repeated    [2]int64               `json:"repeated"`
	Outside     [2]int64               `json:"outside"`
	Differences map[compare.Kind]int64 `json:"differences"`
	Examples    []Example              `json:"examples"`
}

// Example is one difference.
type Example struct {
	Kind   compare.Kind `json:"kind"`
	ID     string       `json:"id,omitempty"`
	Places []string     `json:"places"`
	What   string       `json:"what,omitempty"`
}

// report reads the examples again, for details that the hashes do not hold. Payloads stay out of it.
func (v *verifier) report(ctx context.Context, r *compare.Result) (*Report, error) {
	out := &Report{
		// If nothing was found on both sides, nothing was compared: mistyped topics would count as equal.
		Equal: r.Equal() && r.Matched > 0, Topics: v.pairs, Missing: append([]string{}, v.missing...),
		Removed: append([]string{}, v.removed...),
		Records: r.Records, Matched: r.Matched, Repeated: r.Repeated, Outside: r.Outside,
		Differences: r.Counts, Examples: []Example{},
	}
	for _, d := range r.Examples {
		e := Example{Kind: d.Kind}
		var seen []*sink.Message
		for _, p := range d.Places {
			topic := v.pairs[p.Topic][p.Side]
			e.Places = append(e.Places, fmt.Sprintf("%s partition %d offset %d", topic, p.Partition, p.Offset))
			for m, err := range v.reader.Messages(
				ctx, sink.Span{Topic: topic, Partition: p.Partition, From: p.Offset, End: p.Offset + 1},
			) {
				if err != nil {
					return nil, err
				}
				seen = append(seen, m.Clone())
			}
		}
		if len(seen) > 0 {
			id, _ := seen[0].Header("id")
			e.ID = string(id)
		}
		if len(seen) == 2 {
			e.What = differs(d.Kind, seen[0], seen[1])
		}
		out.Examples = append(out.Examples, e)
	}
	return out, nil
}

// differs describes a difference by sizes and names: payloads and keys are not printed.
func differs(kind compare.Kind, l, r *sink.Message) string {
	size := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%d bytes", len(b))
	}
	switch kind {
	case compare.Value:
		return size(l.Value) + " against " + size(r.Value)
	case compare.Key:
		return size(l.Key) + " against " + size(r.Key)
	case compare.Headers:
		return headerNames(l) + " against " + headerNames(r)
	}
	return ""
}

func headerNames(m *sink.Message) string {
	var names []string
	for _, h := range m.Headers {
		names = append(names, h.Key)
	}
	return strings.Join(names, ",")
}
