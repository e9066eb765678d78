package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Positions are in the records' headers, not in the table. So the topics are read, partition by partition, and the rows
// of the ids found are published in the order in which they were found: within a partition that is the order of the
// log.

// span is how far a partition of a topic is read. High is the last position that was taken: records that a relay
// repeats after a crash do not lie after it.
type span struct {
	sink.Span
	High offsets.Position `json:"high"`
}

// spanCursor is a place in one of the state's spans. Absent are the events before it that no table has, as far as they
// are not counted yet.
type spanCursor struct {
	span   int
	from   int64
	high   offsets.Position
	absent int64
}

func (c spanCursor) moveTo(s *State) {
	s.Spans[c.span].From, s.Spans[c.span].High = c.from, c.high
	s.Absent += c.absent
}

// positions gives the rows whose records have positions in the window.
type positions struct {
	o      *Options
	state  *State
	window window
	filter outboxtable.Filter

	reader *reader.Reader
	tables []*outboxtable.Rows
	yield  func(Row, error) bool
	ended  bool // no more rows are wanted

	ids []string // of rows to be published, and the cursors after them
	at  []spanCursor
}

func (p *positions) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		p.yield = yield
		err := p.all(ctx)
		if err != nil && !p.ended {
			yield(Row{}, err)
		}
	}
}

// give gives a row, and returns errStopped when no more are wanted.
func (p *positions) give(row Row) error {
	if p.ended = p.ended || !p.yield(row, nil); p.ended {
		return errStopped
	}
	return nil
}

func (p *positions) all(ctx context.Context) (err error) {
	if p.reader, err = reader.New(p.o.Kafka.Cluster); err != nil {
		return err
	}
	defer p.reader.Close()
	defer p.o.Progress.Wait(progress.Reading(p.reader))()
	defer p.close()
	for _, t := range p.o.Admin.Tables {
		rows, err := outboxtable.Open(ctx, p.o.DSN, p.o.Admin, t, p.filter)
		if err != nil {
			return err
		}
		p.tables = append(p.tables, rows)
	}
	if p.state.Spans == nil {
		if err := p.resolveSpans(ctx); err != nil {
			return err
		}
	}
	for i := range p.state.Spans {
		if err := p.read(ctx, i); err != nil {
			return err
		}
	}
	return p.verdict()
}

func (p *positions) close() {
	for _, rows := range p.tables {
		rows.Close()
	}
}

// resolveSpans decides the spans to read: up to the topics' present ends, after which the run's own records may come.
func (p *positions) resolveSpans(ctx context.Context) (err error) {
	topics := p.o.FromTopics
	if len(topics) == 0 {
		if topics, err = p.o.Topics.All(ctx, "--from-topic"); err != nil {
			return err
		}
	}
	p.state.Spans = []span{}
	for _, topic := range topics {
		spans, err := p.reader.Spans(ctx, topic)
		if err != nil {
			if errors.Is(err, sink.ErrNoTopic) && len(p.o.FromTopics) == 0 {
				continue
			}
			return err
		}
		compacted, _, err := p.reader.Compacted(ctx, topic)
		if err != nil {
			return err
		}
		if compacted {
			p.o.Progress.Say(fmt.Sprintf("Topic %s is compacted: events that Kafka has removed there are not found "+
				"by their positions.",
				fault.Printable(topic)))
		}
		for _, s := range spans {
			if err := p.refuseGone(ctx, s); err != nil {
				return err
			}
			p.state.Spans = append(p.state.Spans, span{Span: s})
		}
	}
	return p.state.save()
}

// refuseGone finds a window whose beginning retention has removed.
func (p *positions) refuseGone(ctx context.Context, span sink.Span) error {
	if span.From == 0 {
		return nil
	}
	what, next := "all of its records were removed", "Choose by time instead: --since and --until."
	for m, err := range p.reader.Messages(ctx, span) {
		if err != nil {
			return err
		}
		at, ok := placeOf(m)
		if !ok || router.OutOfTurn(m.Headers) {
			continue
		}
		if at.Compare(p.window.from) <= 0 {
			return nil
		}
		what = fmt.Sprintf("its records begin at position %s, older ones were removed", at)
		next = fmt.Sprintf("Begin there, with --from-position %s, or choose by time instead: --since and --until.", at)
		break
	}
	return &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d", span.Topic, span.Partition),
		Err: errors.New(what + ", so the events of the window are not all found by it"), Next: next,
	}
}

// placeOf is the record's position. Records of replay have one before all windows, records of repair one in the log.
func placeOf(m *sink.Message) (offsets.Position, bool) {
	text, _ := m.Header("position")
	at, err := offsets.ParsePosition(string(text))
	return at, err == nil
}

// read takes the records in the window from the rest of a partition.
func (p *positions) read(ctx context.Context, i int) error {
	s := p.state.Spans[i]
	high := s.High
	for m, err := range p.reader.Messages(ctx, s.Span) {
		if err != nil {
			return errors.Join(p.emitRows(ctx), err)
		}
		at, ok := placeOf(m)
		if !ok {
			p.state.Unplaced++
		}
		if !ok || !p.window.has(at) {
			continue
		}
		if _, retried := m.Header(deadletter.HeaderRetried); !retried {
			if at.Compare(high) <= 0 {
				p.state.Repeated++
				continue
			}
			high = at
		}
		id, ok := p.id(m)
		if !ok {
			return &fault.Error{
				Kind: fault.Operator, Object: fmt.Sprintf(
					"topic %q partition %d offset %d", m.Topic, m.Partition, m.Offset,
				),
				Err:  errors.New("the record has a position and no id, so its row cannot be found"),
				Next: "Choose by time instead: --since and --until.",
			}
		}
		p.ids, p.at = append(p.ids, id), append(p.at, spanCursor{span: i, from: m.Offset + 1, high: high})
		if len(p.ids) == batchSize(p.o.Rate) {
			if err := p.emitRows(ctx); err != nil {
				return err
			}
		}
	}
	if err := p.emitRows(ctx); err != nil {
		return err
	}
	return p.give(Row{Cursor: spanCursor{span: i, from: s.End, high: p.state.Spans[i].High}})
}

// id is the row's, as a text that a cast to the column's type takes.
func (p *positions) id(m *sink.Message) (string, bool) {
	id, ok := m.Header("id")
	if !ok {
		id, ok = m.Header("ce_id")
	}
	if p.o.HeaderID != nil {
		id = p.o.HeaderID(id)
	}
	return string(id), ok && id != nil
}

// emitRows gives the rows of the ids that were collected. A resumed run reads the records after the last acknowledged
// row again.
func (p *positions) emitRows(ctx context.Context) error {
	if len(p.ids) == 0 {
		return nil
	}
	found, wanted := map[string]bool{}, map[string]bool{}
	for _, rows := range p.tables {
		ids := p.ids
		if p.o.HeaderBytes != nil && rows.IDIsBytes() {
			ids = p.hexIDs(ids)
		}
		at := map[string]Cursor{}
		for i, id := range ids {
			wanted[id] = true
			if len(p.tables) == 1 { // otherwise a row of the next table may lie before it
				at[id] = p.at[i]
			}
		}
		err := rows.ByID(ctx, ids, func(
			rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key, chosen bool,
		) error {
			if found[key.ID] = true; !chosen {
				return nil
			}
			return p.give(Row{rel, row, at[key.ID]})
		})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	last := p.at[len(p.at)-1]
	last.absent = int64(max(len(wanted)-len(found), 0))
	p.ids, p.at = p.ids[:0], p.at[:0]
	return p.give(Row{Cursor: last})
}

// hexIDs are ids of a bytea column as Postgres prints them.
func (p *positions) hexIDs(ids []string) []string {
	out := slices.Clone(ids)
	for i, id := range ids {
		if raw, err := p.o.HeaderBytes(id); err == nil {
			out[i] = `\x` + hex.EncodeToString(raw)
		}
	}
	return out
}

// verdict reports the events of the window that were not found.
func (p *positions) verdict() error {
	st := p.state
	if st.Repeated > 0 {
		p.o.Progress.Say(
			fmt.Sprintf("%d records of the window were repeats, or lay after later positions: "+
				"passed over.", st.Repeated),
		)
	}
	f := &fault.Error{Kind: fault.Operator, Object: "replay"}
	switch {
	case st.Rows+st.refused+st.Absent == 0 && st.Unplaced > 0:
		f.Err = fmt.Errorf("%d records have no header position, and no other lies in the window", st.Unplaced)
		f.Next = "Choose by time instead: --since and --until. With the preset debezium records have the header only " +
			"with router.debezium.position_header."
	case st.Absent > 0:
		f.Err = fmt.Errorf("%d events of the window are not in the table any more", st.Absent)
		f.Next = "What prune --archive wrote is replayed with --from-archive, and --since and --until."
	default:
		return nil
	}
	return f
}
