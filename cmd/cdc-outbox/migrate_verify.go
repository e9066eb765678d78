package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/progress"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/compare"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
)

type verifyOptions struct {
	leftPrefix, rightPrefix string
	topics                  map[string]string
	ignore                  []string
	partitions, timestamps  bool
	overlap, asJSON         bool
	dir                     string
}

func (a *app) migrateVerifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the events in two sets of topics",
		Long: `verify reads two sets of topics up to their present ends and compares them event by event, matched by the header id: is one
missing on a side, do key, value, headers and partition agree, and do the events of each key come in the same order.
Nothing is written to Kafka and no consumer group is used; records of aborted transactions do not count. Repeats
are counted and are no difference. Memory stays small; the temporary files take some 70 bytes a record.

The topics are those with --left-prefix, each paired with the one that has --right-prefix in its place; or name pairs with
--topic. The exit code is 0 when both sides are equal and 1 when they differ, or when they have no event in common.`,
		Example: `  cdc-outbox migrate verify --config cdc-outbox.yaml --left-prefix outbox.event. --right-prefix verify.outbox.event.
  cdc-outbox migrate verify --topic order.events=shadow.order --overlap --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			k, err := wiring.Kafka(c)
			if err != nil {
				return err
			}
			return a.verify(cmd.Context(), k, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.leftPrefix, "left-prefix", "", "prefix of the topics on the left")
	f.StringVar(&o.rightPrefix, "right-prefix", "", "prefix that the topics on the right have in its place")
	f.StringToStringVar(&o.topics, "topic", nil, "pair of topics, left=right; may be repeated")
	f.StringSliceVar(&o.ignore, "ignore-headers", []string{"__debezium.context.runId", "position"}, "headers that may differ")
	f.BoolVar(&o.partitions, "ignore-partitions", false, "do not compare partitions, where their numbers differ")
	f.BoolVar(&o.timestamps, "timestamps", false, "compare timestamps too; Debezium's are those of its own clock")
	f.BoolVar(&o.overlap, "overlap", false, "leave out what lies, in a partition, before the first and behind the last event that both sides have")
	f.StringVar(&o.dir, "tmp", "", "directory for temporary files (default: the system's)")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// verifier reads both sides.
type verifier struct {
	reader  *reader.Reader
	pairs   [][2]string // topics, by number
	missing []string    // of these, which do not exist
	errw    io.Writer
}

func (a *app) verify(ctx context.Context, cfg kafka.Config, o verifyOptions) error {
	consumer, err := reader.New(cfg.Cluster)
	if err != nil {
		return err
	}
	defer consumer.Close()
	defer a.progress().Wait(progress.Reading(consumer))()
	v := &verifier{reader: consumer, errw: a.stderr}
	if err := v.pair(ctx, o); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "cdc-outbox-verify-")
	if err != nil {
		return &fault.Error{Kind: fault.Config, Object: "--tmp", Err: err, Next: "Name a directory that can be written to."}
	}
	defer os.RemoveAll(dir)
	c := compare.New(compare.Options{
		Dir: dir, IgnoreHeaders: o.ignore, IgnorePartitions: o.partitions, Timestamps: o.timestamps, Overlap: o.overlap,
	})
	defer c.Close()
	if err := v.read(ctx, c); err != nil {
		return err
	}
	result, err := c.Result()
	if err != nil {
		return &fault.Error{Kind: fault.Fatal, Object: "temporary files", Err: err}
	}
	report, err := v.report(ctx, result)
	if err != nil {
		return err
	}
	if err := a.printVerdict(report, o.asJSON); err != nil {
		return err
	}
	if report.Equal {
		return nil
	}
	return reported{&fault.Error{Kind: fault.Fatal, Object: "topics", Err: errors.New("the two sides are not equal")}}
}

// pair finds the topics. With prefixes a topic that one side lacks is paired all the same: its events are missing there.
func (v *verifier) pair(ctx context.Context, o verifyOptions) error {
	for _, left := range slices.Sorted(maps.Keys(o.topics)) {
		if left == o.topics[left] {
			return fault.Usage("both sides are the topic "+fault.Printable(left), "give pairs of different topics, --topic left=right")
		}
		v.pairs = append(v.pairs, [2]string{left, o.topics[left]})
	}
	if len(v.pairs) > 0 {
		return nil
	}
	if o.leftPrefix == "" && o.rightPrefix == "" {
		return fault.Usage("no topics are named", "give --left-prefix and --right-prefix, or pairs with --topic left=right")
	}
	if o.leftPrefix == o.rightPrefix {
		return fault.Usage("both sides are the same topics", "give --left-prefix and --right-prefix, or pairs with --topic left=right")
	}
	names, err := v.reader.Topics(ctx)
	if err != nil {
		return err
	}
	v.pairs = pairTopics(names, o.leftPrefix, o.rightPrefix)
	if len(v.pairs) == 0 {
		return fault.Usage("no topic has one of the prefixes", "kafka-topics.sh --list shows the topics")
	}
	return nil
}

// pairTopics: where one prefix begins the other the longer one decides.
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
	var spans [2][][]reader.Span
	var total, done int64
	for side := range spans {
		for _, pair := range v.pairs {
			of, err := v.reader.Spans(ctx, pair[side])
			if errors.Is(err, reader.ErrNoTopic) {
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
	last := time.Now()
	for side := range spans {
		for topic, of := range spans[side] {
			for _, s := range of {
				for m, err := range v.reader.Messages(ctx, s) {
					if err != nil {
						return err
					}
					if err := c.Add(compare.Side(side), recordOf(topic, m)); err != nil {
						return &fault.Error{Kind: fault.Fatal, Object: "temporary files", Err: err, Next: "Name a directory with more room: --tmp."}
					}
					if done++; done%1024 == 0 && time.Since(last) > 5*time.Second {
						last = time.Now()
						fmt.Fprintf(v.errw, "read %d of at most %d records\n", done, total)
					}
				}
			}
		}
	}
	return nil
}

func recordOf(topic int, m *reader.Message) *compare.Record {
	return &compare.Record{
		Topic: topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value, Headers: m.Headers,
	}
}

// verdict is what verify prints.
type verdict struct {
	Equal       bool                   `json:"equal"`
	Topics      [][2]string            `json:"topics"`
	Missing     []string               `json:"missing_topics"` // of these, which do not exist
	Records     [2]int64               `json:"records"`
	Matched     int64                  `json:"matched"`
	Repeated    [2]int64               `json:"repeated"`
	Outside     [2]int64               `json:"outside"`
	Differences map[compare.Kind]int64 `json:"differences"`
	Examples    []example              `json:"examples"`
}

type example struct {
	Kind   compare.Kind `json:"kind"`
	ID     string       `json:"id,omitempty"`
	Places []string     `json:"places"`
	What   string       `json:"what,omitempty"`
}

// report looks the examples up again, for what the hashes do not tell. Payloads stay out of it.
func (v *verifier) report(ctx context.Context, r *compare.Result) (*verdict, error) {
	out := &verdict{
		// Where nothing was found on both sides, nothing was compared: mistyped topics would count as equal.
		Equal: r.Equal() && r.Matched > 0, Topics: v.pairs, Missing: append([]string{}, v.missing...), Records: r.Records, Matched: r.Matched, Repeated: r.Repeated, Outside: r.Outside,
		Differences: r.Counts, Examples: []example{},
	}
	for _, d := range r.Examples {
		e := example{Kind: d.Kind}
		var seen []*reader.Message
		for _, p := range d.Places {
			topic := v.pairs[p.Topic][p.Side]
			e.Places = append(e.Places, fmt.Sprintf("%s partition %d offset %d", topic, p.Partition, p.Offset))
			for m, err := range v.reader.Messages(ctx, reader.Span{Topic: topic, Partition: p.Partition, From: p.Offset, End: p.Offset + 1}) {
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

// differs says what differs, in sizes and names: payloads and keys are not printed.
func differs(kind compare.Kind, l, r *reader.Message) string {
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

func headerNames(m *reader.Message) string {
	var names []string
	for _, h := range m.Headers {
		names = append(names, h.Key)
	}
	return strings.Join(names, ",")
}

func (a *app) printVerdict(v *verdict, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d topics; records: %d on the left, %d on the right; %d events are on both sides\n", len(v.Topics), v.Records[0], v.Records[1], v.Matched)
	for _, name := range v.Missing {
		fmt.Fprintf(&b, "! topic %s does not exist\n", fault.Printable(name))
	}
	if v.Repeated != [2]int64{} {
		fmt.Fprintf(&b, "repeats: %d on the left, %d on the right\n", v.Repeated[0], v.Repeated[1])
	}
	if v.Outside != [2]int64{} {
		fmt.Fprintf(&b, "outside what both sides cover: %d on the left, %d on the right\n", v.Outside[0], v.Outside[1])
	}
	for _, kind := range slices.Sorted(maps.Keys(v.Differences)) {
		fmt.Fprintf(&b, "✗ %s: %d\n", kind, v.Differences[kind])
		for _, e := range v.Examples {
			if e.Kind == kind {
				fmt.Fprintf(&b, "    id %s: %s", fault.Printable(e.ID), fault.Printable(strings.Join(e.Places, " / ")))
				if e.What != "" {
					b.WriteString(": " + fault.Printable(e.What))
				}
				b.WriteString("\n")
			}
		}
	}
	switch {
	case v.Equal:
		b.WriteString("✓ equal\n")
	case v.Matched == 0:
		b.WriteString("✗ nothing was compared: the two sides have no event in common\n" +
			"    next: check the names (kafka-topics.sh --list), and that both relays have published the same rows\n")
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}
