package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// maxGhosts bounds the ghosts that are kept. More of them are rows that were deleted.
	maxGhosts = 10_000
	// askedAtOnce is how many ids one query is about.
	askedAtOnce = 1000
	// openLimit is how long the search waits for writers that are still in COMMIT.
	openLimit = time.Minute
)

// GhostOptions are the options of a search for events that have no row.
type GhostOptions struct {
	Topics []string
	Since  time.Time // rows from this time on are kept, by the operator's word; zero: from the oldest row on

	DSN    string
	Admin  setup.Config // at least one table
	Reader sink.OpenReader

	Progress progress.Reporter
}

// Ghost is a published event whose row does not exist.
type Ghost struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`               // of the row
	Position  string    `json:"position,omitempty"` // the header of this name
	Repeats   int       `json:"repeats"`            // further records with the same id
}

// GhostReport is the result of the search.
type GhostReport struct {
	Ghosts     []*Ghost  `json:"ghosts"`
	Topics     []string  `json:"topics"`
	From       time.Time `json:"from"`        // events of earlier rows were not judged
	Records    int64     `json:"records"`     // that were read
	Judged     int64     `json:"judged"`      // with an id, and new enough
	Earlier    int64     `json:"earlier"`     // their rows may have been deleted since
	WithoutID  int64     `json:"without_id"`  // another producer's
	AppendTime int64     `json:"append_time"` // of a topic whose timestamps are not the rows'
	Unsettled  bool      `json:"unsettled"`   // a transaction stayed open, whose row may yet appear

	names sink.Names
}

// Place is where the event is.
func (r *GhostReport) Place(g *Ghost) string { return r.names.Place(g.Topic, g.Partition, g.Offset) }

// FindGhosts finds the published events whose rows the tables do not have although they keep rows of that time. It only
// reads.
func FindGhosts(ctx context.Context, o GhostOptions) (*GhostReport, error) {
	s := &search{o: &o, seen: map[string]*Ghost{}}
	s.report = GhostReport{Ghosts: []*Ghost{}, Topics: o.Topics}
	defer func() {
		for _, rows := range s.tables {
			rows.Close()
		}
	}()
	for _, t := range o.Admin.Tables {
		rows, err := outboxtable.Open(ctx, o.DSN, o.Admin, t, outboxtable.Filter{})
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, rows)
	}
	var err error
	if s.report.From, err = s.from(ctx); err != nil {
		return nil, err
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if err := s.confirmGhosts(ctx); err != nil {
		return nil, err
	}
	return &s.report, nil
}

// search is a search at work.
type search struct {
	o      *GhostOptions
	tables []*outboxtable.Rows
	report GhostReport
	asked  []*Ghost          // not looked up yet
	seen   map[string]*Ghost // by id: asked, or without a row
	total  int64             // records to read
}

// from is the time of the oldest row that every table keeps. `prune` deletes by age, so it has deleted none after it.
func (s *search) from(ctx context.Context) (time.Time, error) {
	from := s.o.Since
	for i, rows := range s.tables {
		name := "table " + s.o.Admin.Tables[i].String()
		why, oldest, ok := "it has no column with the events' times", time.Time{}, false
		if rows.Timed() {
			var err error
			if oldest, ok, err = rows.Oldest(ctx); err != nil {
				return from, err
			}
			why = "it has no rows"
		}
		switch {
		case ok && oldest.After(from):
			from = oldest
		case !ok && s.o.Since.IsZero():
			return from, &fault.Error{
				Kind: fault.Operator, Object: name,
				Err:  errors.New(why + ", so a row that was deleted cannot be distinguished from one that never was"),
				Next: "Name with --since a time from which on no row was deleted.",
			}
		}
	}
	return from, nil
}

func (s *search) read(ctx context.Context) error {
	consumer, err := s.o.Reader()
	if err != nil {
		return err
	}
	defer consumer.Close()
	s.report.names = consumer.Names()
	defer s.o.Progress.Wait(progress.Reading(consumer))()
	var all []sink.Span
	for _, topic := range s.o.Topics {
		spans, err := consumer.Spans(ctx, topic)
		if errors.Is(err, sink.ErrNoTopic) {
			continue
		}
		if err != nil {
			return err
		}
		all = append(all, spans...)
	}
	s.total = offsetsIn(all)
	for _, span := range all {
		for m, err := range consumer.Messages(ctx, span) {
			if err == nil {
				err = s.noteRecord(ctx, m)
			}
			if err != nil {
				return err
			}
		}
	}
	return s.lookUp(ctx)
}

// stepRecords is how many records pass between two reports of progress.
const stepRecords = 1024

// offsetsIn counts the offsets of spans. There may be fewer records: of compacted topics and of transactions.
func offsetsIn(spans []sink.Span) (n int64) {
	for _, s := range spans {
		n += s.End - s.From
	}
	return n
}

// noteRecord notes a record to be looked up. A record's time has no more than milliseconds.
func (s *search) noteRecord(ctx context.Context, m *sink.Message) error {
	s.report.Records++
	if s.report.Records%stepRecords == 0 {
		s.o.Progress.Step(progress.Step{
			What: "reading " + s.report.names.Broker, Done: s.report.Records, Total: s.total, About: true,
			Unit: "records",
		})
	}
	id, ok := m.Header("id")
	if !ok {
		id, ok = m.Header("ce_id")
	}
	at, of := rowTime(m)
	switch {
	case !ok || len(id) == 0:
		s.report.WithoutID++
		return nil
	case !of && s.o.Since.IsZero():
		s.report.AppendTime++
		return nil
	case !at.After(s.report.From.Truncate(time.Millisecond)):
		s.report.Earlier++
		return nil
	}
	s.report.Judged++
	if known := s.seen[string(id)]; known != nil {
		known.Repeats++
		return nil
	}
	g := &Ghost{ID: string(id), Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Time: at}
	if position, ok := m.Header("position"); ok {
		g.Position = string(position)
	}
	s.seen[g.ID] = g
	if s.asked = append(s.asked, g); len(s.asked) < askedAtOnce {
		return nil
	}
	return s.lookUp(ctx)
}

// rowTime is the row's time; ok is false if the record has only the broker's time.
func rowTime(m *sink.Message) (at time.Time, ok bool) {
	if text, ok := m.Header(router.HeaderOriginalTimestamp); ok {
		if ms, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return time.UnixMilli(ms).UTC(), true
		}
	}
	return time.UnixMilli(m.Timestamp).UTC(), !m.AppendTime
}

// lookUp forgets the events that have a row.
func (s *search) lookUp(ctx context.Context) error {
	absent, err := s.absent(ctx, s.asked)
	if err != nil {
		return err
	}
	for _, g := range s.asked {
		delete(s.seen, g.ID)
	}
	for _, g := range absent {
		s.seen[g.ID] = g
	}
	s.report.Ghosts = append(s.report.Ghosts, absent...)
	s.asked = s.asked[:0]
	if len(s.report.Ghosts) > maxGhosts {
		return &fault.Error{
			Kind: fault.Operator, Object: "repair",
			Err:  fmt.Errorf("more than %d events have no row: rows are deleted otherwise than by prune", maxGhosts),
			Next: "Name with --since a time from which on no row was deleted.",
		}
	}
	return nil
}

// absent returns the events that no table has.
func (s *search) absent(ctx context.Context, all []*Ghost) ([]*Ghost, error) {
	rest := slices.Clone(all)
	for _, rows := range s.tables {
		ids := make([]string, len(rest))
		for i, g := range rest {
			ids[i] = g.ID
		}
		present, err := rows.Present(ctx, ids)
		if err != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		rest = slices.DeleteFunc(rest, func(g *Ghost) bool { return present[g.ID] })
	}
	return rest, nil
}

// confirmGhosts looks again when the writers that were in COMMIT have ended, and leaves out events whose rows were
// pruned meanwhile.
func (s *search) confirmGhosts(ctx context.Context) error {
	if len(s.report.Ghosts) == 0 {
		return nil
	}
	stop := s.o.Progress.Wait(progress.For("transactions that are open to end"))
	ended, err := s.tables[0].AwaitEnded(ctx, openLimit)
	stop()
	if err != nil {
		return err
	}
	s.report.Unsettled = !ended
	from, err := s.from(ctx)
	if err != nil {
		return err
	}
	s.report.From = from
	var left []*Ghost
	for part := range slices.Chunk(s.report.Ghosts, askedAtOnce) {
		absent, err := s.absent(ctx, part)
		if err != nil {
			return err
		}
		left = append(left, absent...)
	}
	left = slices.DeleteFunc(left, func(g *Ghost) bool { return !g.Time.After(from.Truncate(time.Millisecond)) })
	s.report.Ghosts = append([]*Ghost{}, left...)
	return nil
}

// Err is nil if every event that was judged has its row. runbook is the link to the remedy.
func (r *GhostReport) Err(runbook string) error {
	if len(r.Ghosts) == 0 {
		return nil
	}
	f := &fault.Error{
		Kind: fault.Operator, Object: "repair",
		Err: fmt.Errorf("%d events in %s have no row", len(r.Ghosts), r.names.Broker),
		Next: "Tell the consumers of these events, or publish events that take them back: " + runbook + ". To " +
			"prevent it, set postgres.wait_for_standbys.",
	}
	if r.Unsettled {
		f.Next = "A transaction has been open all the while, and a row of it may still appear: end it, and run this " +
			"again. " + f.Next
	}
	return f
}
