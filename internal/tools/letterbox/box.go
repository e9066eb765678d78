// Package letterbox reads a dead-letter topic.
package letterbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Box is a dead-letter topic as it was read, or a file of its letters with the topic's marks.
type Box struct {
	Topic  string
	Ledger deadletter.Ledger

	open    sink.OpenReader
	reader  sink.Reader
	file    *file           // nil: the letters are the topic's
	ends    map[int32]int64 // offsets up to which the ledger goes
	silence func()
}

// Open reads the topic to its present end. The caller closes the box.
func Open(ctx context.Context, open sink.OpenReader, topic string, report progress.Reporter) (*Box, error) {
	b := &Box{Topic: topic, open: open}
	return b, b.connect(ctx, report)
}

// OpenFile reads a file that Export has written, and then its topic to the present end: marks may be in either. An
// empty topic is the file's; another than the file's is refused. With write, Note appends to the file. The caller
// closes the box.
func OpenFile(
	ctx context.Context, open sink.OpenReader, topic, path string, write bool, report progress.Reporter,
) (*Box, error) {
	b := &Box{open: open}
	var err error
	if b.file, err = openFile(ctx, path, write, &b.Ledger, report); err != nil {
		return nil, err
	}
	if b.Topic = b.file.topic; topic != "" && topic != b.Topic {
		_ = b.file.Close()
		return nil, fault.Usage("the letters of the file are of the topic "+b.Topic+", not of "+topic, "leave out --in")
	}
	return b, b.connect(ctx, report)
}

// connect reads the topic. It closes the box if that fails.
func (b *Box) connect(ctx context.Context, report progress.Reporter) error {
	b.ends, b.silence = map[int32]int64{}, func() {}
	var err error
	if b.reader, err = b.open(); err == nil {
		b.silence = report.Wait(progress.Reading(b.reader))
		err = b.Refresh(ctx)
	}
	if err != nil {
		b.Close()
	}
	return err
}

// Close ends the connections to the broker.
func (b *Box) Close() {
	b.silence()
	if b.reader != nil {
		b.reader.Close()
	}
	if b.file != nil {
		_ = b.file.Close() // the marks of Note are on the disk
	}
}

// Entries lists the letters by position: of the topic, or of the file alone if there is one.
func (b *Box) Entries() []*deadletter.Entry {
	all := b.Ledger.Entries()
	if b.file == nil {
		return all
	}
	return slices.DeleteFunc(all, func(e *deadletter.Entry) bool { return b.file.places[e] == 0 })
}

// Note remembers marks in the file, if the letters are of one.
func (b *Box) Note(marks []*router.Record) error {
	if b.file == nil || len(marks) == 0 {
		return nil
	}
	if err := b.file.note(marks); err != nil {
		return fmt.Errorf("the file cannot remember the retry: %w", err)
	}
	return nil
}

// Refresh reads on to the topic's present end.
func (b *Box) Refresh(ctx context.Context) error {
	spans, err := b.reader.Spans(ctx, b.Topic)
	if err != nil {
		return err
	}
	for _, s := range spans {
		s.From = max(s.From, b.ends[s.Partition])
		for m, err := range b.reader.Messages(ctx, s) {
			if err != nil {
				return err
			}
			b.Ledger.Add(recordOf(m))
		}
		b.ends[s.Partition] = max(s.End, s.From)
	}
	return nil
}

// Letter reads one letter again, with its payload.
func (b *Box) Letter(ctx context.Context, e *deadletter.Entry) (*deadletter.Letter, error) {
	if b.file != nil {
		return b.file.letter(b.file.places[e])
	}
	span := sink.Span{Topic: b.Topic, Partition: e.Partition, From: e.Offset, End: e.Offset + 1}
	for m, err := range b.reader.Messages(ctx, span) {
		if err != nil {
			return nil, err
		}
		return deadletter.Parse(recordOf(m.Clone()))
	}
	return nil, errors.New("the dead letter no longer exists: the topic's retention has deleted it")
}

// Complete reads the cut parts of a consumer's letter from its source record.
func (b *Box) Complete(ctx context.Context, l *deadletter.Letter) error {
	at := l.Source
	span := sink.Span{Topic: at.Topic, Partition: at.Partition, From: at.Offset, End: at.Offset + 1}
	for m, err := range b.reader.Messages(ctx, span) {
		if err != nil {
			return fmt.Errorf("the letter holds no %s, and the record at %s cannot be read: %w; use --from-table",
				strings.Join(l.Cut, ", "), l.Position, err)
		}
		m = m.Clone()
		if id := deadletter.EventID(m.Headers); id != "" && !strings.HasPrefix(l.ID, strings.TrimSuffix(id, "…")) {
			return fmt.Errorf("%s holds another event now; use --from-table", l.Position)
		}
		l.RecordKey, l.Value, l.Headers, l.Cut = m.Key, m.Value, m.Headers, nil
		return nil
	}
	return fmt.Errorf("the letter holds no %s, and its record is no longer at %s; use --from-table",
		strings.Join(l.Cut, ", "), l.Position)
}

func recordOf(m *sink.Message) *deadletter.Record {
	return &deadletter.Record{
		Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value,
		Headers: m.Headers,
	}
}

// Find returns the letter that an argument names, by id or position, if the filter chooses it.
func (b *Box) Find(name string, f *deadletter.Filter) (*deadletter.Entry, error) {
	var found []*deadletter.Entry
	now, others := time.Now(), 0
	for _, e := range b.Entries() {
		switch {
		case e.Position != name && (e.ID != name || name == ""):
		case f.Chooses(e, now):
			found = append(found, e)
		default:
			others++
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if others > 0 {
			return nil, fault.Usage(
				"the dead letter of "+fault.Printable(name)+" is not one that --group, --reason, --source and "+
					"--older-than choose", "leave these flags out, or see dead-letter list",
			)
		}
		return nil, fault.Usage(
			"no dead letter has the id or position "+fault.Printable(name),
			"cdc-outbox dead-letter list shows which there are",
		)
	}
	return nil, severalLetters(name, found)
}

// severalLetters says how to name one of them. Two groups may have a letter of one record, at one position.
func severalLetters(name string, found []*deadletter.Entry) error {
	var at, groups []string
	for _, e := range found {
		at, groups = append(at, e.Position), append(groups, e.Group)
	}
	slices.Sort(at)
	next := "name one by its position: " + strings.Join(at, ", ")
	if len(slices.Compact(at)) < len(found) {
		slices.Sort(groups)
		next = "choose with --group: " + strings.Join(slices.Compact(groups), ", ")
	}
	return fault.Usage(
		fmt.Sprintf("%d dead letters have the id or position %s", len(found), fault.Printable(name)), next,
	)
}
