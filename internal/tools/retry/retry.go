package retry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/publish"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// letterBatch is how many letters are retried at a time. Each batch costs three waits for Kafka and a read of the
// marks.
const letterBatch = 100

// Options of a retry.
type Options struct {
	deadletter.Filter
	Names       []string // ids or positions; without any, all open letters that the filter chooses, see waits
	Corrections Corrections
	Again       bool // also letters that were retried already, or that an interrupted retry left behind
	FromTable   bool // take the rows from the outbox table although the letters hold them
	DryRun      bool

	IntoCompacted bool          // also into compacted topics
	Timeout       time.Duration // for Kafka to take a batch of letters

	Topic     string // of the dead letters; empty: the file's
	File      string // that has the letters; empty: the topic has them
	Kafka     kafka.Config
	Router    router.Router
	KeyColumn string
	DSN       string
	Tables    []identifier.Table
	IDColumn  string

	Progress progress.Reporter

	dismissing bool
}

// Letter is a dead letter and its outcome.
type Letter struct {
	Entry  *deadletter.Entry
	Record *router.Record
	Err    error           // why it is not published
	known  map[string]bool // attempts before ours
}

// Run retries the letters batch by batch. done gets each batch when its outcomes are known. Run returns how many
// letters were chosen.
func Run(ctx context.Context, o Options, done func([]*Letter)) (chosen int, err error) {
	b, letters, err := open(ctx, &o)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	re := &rebuilder{Options: &o, box: b, began: time.Now()}
	defer re.close()
	m := &marker{attempt: rand.Text(), timeout: o.Timeout}
	if !o.DryRun {
		if m.Publisher, err = publish.New(ctx, o.Kafka, o.Progress); err != nil {
			return 0, err
		}
		defer m.Close()
	}
	var guard *publish.Guard
	if !o.IntoCompacted {
		guard = &publish.Guard{Cluster: o.Kafka.Cluster, Progress: o.Progress}
	}
	for batch := range slices.Chunk(letters, letterBatch) {
		for _, l := range batch {
			if l.Err == nil {
				l.Record, l.Err = re.rebuild(ctx, l.Entry)
			}
			if l.Err == nil {
				l.Err = guard.Judge(ctx, l.Record.Topic)
			}
		}
		if !o.DryRun {
			if err := m.retry(ctx, b, batch); err != nil {
				return 0, err
			}
		}
		done(batch)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return len(letters), nil
}

// open reads the letters and chooses some. The caller closes the box.
func open(ctx context.Context, o *Options) (b *letterbox.Box, letters []*Letter, err error) {
	if o.File == "" {
		b, err = letterbox.Open(ctx, reader.Open(o.Kafka.Cluster), o.Topic, o.Progress)
	} else {
		b, err = letterbox.OpenFile(ctx, reader.Open(o.Kafka.Cluster), o.Topic, o.File, !o.DryRun, o.Progress)
	}
	if err != nil {
		return nil, nil, err
	}
	if o.Corrections.Topic == b.Topic {
		err = fault.Usage("--topic: the topic is that of the dead letters", "name a topic for events")
	} else {
		letters, err = choose(b, o)
	}
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, letters, nil
}

// choose takes the letters that are named, or all open ones of the reasons. One that is named and may not be retried
// says why; among those chosen by reason it is left out, unless --again.
func choose(b *letterbox.Box, o *Options) ([]*Letter, error) {
	var chosen []*Letter
	add := func(e *deadletter.Entry, err error) {
		if !slices.ContainsFunc(chosen, func(r *Letter) bool { return r.Entry == e }) {
			chosen = append(chosen, &Letter{Entry: e, known: e.Attempts(), Err: err})
		}
	}
	for _, name := range o.Names {
		e, err := b.Find(name, &o.Filter)
		if err != nil {
			return nil, err
		}
		err = mayRetry(e, o.Again)
		switch {
		case o.dismissing && (e.IsOpen() || e.Holds): // one that was published elsewhere may still hold its key
			err = nil
		case e.WaitsFor != "" && !o.Again && err == nil:
			err = fmt.Errorf("it waits for the letter of event %s: retry or dismiss it, and the consumer "+
				"handles this one; --again publishes it all the same", e.WaitsFor)
		}
		add(e, err)
	}
	if now := time.Now(); len(o.Names) == 0 {
		for _, e := range b.Entries() {
			switch {
			case !o.Chooses(e, now) || waits(e, o):
			case !e.IsOpen() && (!o.Again || e.State == deadletter.Dismissed):
			default:
				add(e, mayRetry(e, o.Again))
			}
		}
	}
	slices.SortStableFunc(chosen, func(x, y *Letter) int { return x.Entry.Compare(y.Entry) })
	return chosen, nil
}

// waits reports whether a letter is left to its consumer, which handles it when the letter before has been retried or
// dismissed. It is chosen by its name, or by its reason.
func waits(e *deadletter.Entry, o *Options) bool {
	return e.WaitsFor != "" && !slices.Contains(o.Reasons, e.Reason)
}

func mayRetry(e *deadletter.Entry, again bool) error {
	switch {
	case again || e.State == deadletter.Open:
		return nil
	case e.State == deadletter.Dismissed:
		return errors.New("it was dismissed; --again publishes it all the same")
	case e.State == deadletter.Retried:
		return fmt.Errorf("it was published at %s; --again publishes it once more", human.Time(e.RetriedAt))
	default:
		return errors.New(
			"an earlier retry was interrupted and may have published it; look for its id in the topic, then use " +
				"--again to publish it, perhaps for the second time",
		)
	}
}

// Dismiss marks letters as not to be published any more.
func Dismiss(ctx context.Context, o Options, done func([]*Letter)) (chosen int, err error) {
	o.dismissing = true
	b, letters, err := open(ctx, &o)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	m := &marker{attempt: rand.Text(), timeout: o.Timeout}
	if m.Publisher, err = publish.New(ctx, o.Kafka, o.Progress); err != nil {
		return 0, err
	}
	defer m.Close()
	for batch := range slices.Chunk(letters, letterBatch) {
		dismissed := m.writeMarks(ctx, b, ready(batch), deadletter.Dismissal)
		if err := m.note(b, dismissed, deadletter.Dismissal); err != nil {
			return 0, &fault.Error{
				Kind: fault.Operator, Object: "dead-letter dismiss", Err: err,
				Next: "Make room for the file, and run the command again.",
			}
		}
		done(batch)
	}
	return len(letters), ctx.Err()
}
