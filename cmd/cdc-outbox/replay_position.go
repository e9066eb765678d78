package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/progress"

	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// Positions are in the records' headers, not in the table. So the topics are read, partition by partition, and the rows of
// the ids found are published in the order in which they were found: within a partition that is the order of the log.

// positionWindow is a range of positions, both ends included.
type positionWindow struct{ from, to offsets.Position }

func (w positionWindow) has(p offsets.Position) bool {
	return p.Compare(w.from) >= 0 && p.Compare(w.to) <= 0
}

// window reads --from-position and --to-position. LSN 0 is left out: it is what replayed records have.
func (o *replayOptions) window() (w positionWindow, err error) {
	w = positionWindow{from: offsets.Position{Commit: 1}, to: offsets.Position{Commit: math.MaxUint64, Index: math.MaxUint32}}
	for _, p := range []struct {
		flag, text string
		index      uint32
		to         *offsets.Position
	}{{"--from-position", o.FromPosition, 0, &w.from}, {"--to-position", o.ToPosition, math.MaxUint32, &w.to}} {
		if p.text == "" {
			continue
		}
		if commit, err := lsn.Parse(p.text); err == nil {
			*p.to = offsets.Position{Commit: commit, Index: p.index}
		} else if *p.to, err = offsets.ParsePosition(p.text); err != nil {
			return w, fault.Usage(p.flag+" is no position", "write it as the header position has it, 0000000016b374d8-0000002a, or the LSN of a commit, 0/16B374D8")
		}
	}
	if w.from.Compare(w.to) > 0 {
		return w, fault.Usage("--from-position lies behind --to-position", "change them over")
	}
	return w, nil
}

// positionSpan is how far a partition of a topic is read. High is the last position that was taken: what a relay repeats
// after a crash does not lie behind it.
type positionSpan struct {
	reader.Span
	High offsets.Position `json:"high"`
}

// byPosition publishes the rows whose positions lie in the window.
func (a *app) byPosition(ctx context.Context, c *config.Loaded, s wiring.Target, r *replay, filter outboxtable.Filter, w positionWindow) error {
	kc, err := wiring.Kafka(c)
	if err != nil {
		return err
	}
	consumer, err := reader.New(kc.Cluster)
	if err != nil {
		return err
	}
	defer consumer.Close()
	defer a.progress().Wait(progress.Reading(consumer))()
	p := &positions{replay: r, reader: consumer, window: w, bytesAs: wiring.HeaderBytes(c), idOf: wiring.DeadLetters(c).ID}
	for _, t := range s.Admin.Tables {
		rows, err := outboxtable.Open(ctx, s.DSN, s.Admin, t, filter)
		if err != nil {
			return err
		}
		defer rows.Close()
		p.tables = append(p.tables, rows)
	}
	if r.state.Spans == nil {
		if err := p.begin(ctx, c, s); err != nil {
			return err
		}
	}
	for i := range r.state.Spans {
		if err := p.read(ctx, &r.state.Spans[i]); err != nil {
			return err
		}
	}
	return p.verdict()
}

type positions struct {
	*replay
	reader  *reader.Reader
	window  positionWindow
	bytesAs func(string) ([]byte, error) // nil: as Postgres prints them
	idOf    func([]byte) []byte          // nil: the header is the id
	tables  []*outboxtable.Rows

	ids []string // of rows to be published, and behind each where reading goes on
	at  []positionSpan
}

// begin decides what is read: to where the topics end now. What is published goes there, too.
func (p *positions) begin(ctx context.Context, c *config.Loaded, s wiring.Target) error {
	topics := slices.Clone(p.o.FromTopics)
	if len(topics) == 0 {
		var err error
		if topics, err = wiring.Topics(c, s.DSN, s.Admin.Tables).All(ctx, "--from-topic"); err != nil {
			return err
		}
	}
	p.state.Spans = []positionSpan{}
	for _, topic := range topics {
		spans, err := p.reader.Spans(ctx, topic)
		if err != nil {
			if errors.Is(err, reader.ErrNoTopic) && len(p.o.FromTopics) == 0 {
				continue
			}
			return err
		}
		compacted, _, err := p.reader.Compacted(ctx, topic)
		if err != nil {
			return err
		}
		if compacted {
			fmt.Fprintf(p.progress, "Topic %s is compacted: events that Kafka has removed there are not found by their positions.\n", fault.Printable(topic))
		}
		for _, span := range spans {
			if err := p.refuseGone(ctx, span); err != nil {
				return err
			}
			p.state.Spans = append(p.state.Spans, positionSpan{Span: span})
		}
	}
	return p.state.save()
}

// refuseGone finds a window whose beginning retention has removed.
func (p *positions) refuseGone(ctx context.Context, span reader.Span) error {
	if span.From == 0 {
		return nil
	}
	what, next := "all of its records were removed", "Choose by time instead: --since and --until."
	for m, err := range p.reader.Messages(ctx, span) {
		if err != nil {
			return err
		}
		at, ok := placeOf(m)
		if !ok {
			continue
		}
		if at.Compare(p.window.from) <= 0 {
			return nil
		}
		what = fmt.Sprintf("its records begin at position %s, older ones were removed", at)
		next = fmt.Sprintf("Begin there, with --from-position %s, or choose by time instead: --since and --until.", at)
		break
	}
	return &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d", span.Topic, span.Partition), Err: errors.New(what + ", so the events of the window are not all found by it"), Next: next}
}

// placeOf is the record's position. What replay published lies before all windows, what repair published in the log.
func placeOf(m *reader.Message) (offsets.Position, bool) {
	text, _ := m.Header("position")
	at, err := offsets.ParsePosition(string(text))
	return at, err == nil
}

// read takes what lies in the window of the rest of a partition.
func (p *positions) read(ctx context.Context, span *positionSpan) error {
	high := span.High
	for m, err := range p.reader.Messages(ctx, span.Span) {
		if err != nil {
			return errors.Join(p.publish(ctx, span), err)
		}
		at, ok := placeOf(m)
		if !ok {
			p.state.Unplaced++
		}
		if !ok || !p.window.has(at) {
			continue
		}
		if _, retried := m.Header(headerRetried); !retried {
			if at.Compare(high) <= 0 {
				p.state.Repeated++
				continue
			}
			high = at
		}
		id, ok := p.id(m)
		if !ok {
			return &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d offset %d", m.Topic, m.Partition, m.Offset), Err: errors.New("the record has a position and no id, so its row cannot be found"),
				Next: "Choose by time instead: --since and --until."}
		}
		p.ids = append(p.ids, id)
		p.at = append(p.at, positionSpan{Span: reader.Span{From: m.Offset + 1}, High: high})
		if len(p.ids) == p.batchSize() {
			if err := p.publish(ctx, span); err != nil {
				return err
			}
		}
	}
	if err := p.publish(ctx, span); err != nil {
		return err
	}
	span.From = span.End
	return p.state.save()
}

// id is the row's, as a text that a cast to the column's type takes.
func (p *positions) id(m *reader.Message) (string, bool) {
	id, ok := m.Header("id")
	if !ok {
		id, ok = m.Header("ce_id")
	}
	if p.idOf != nil {
		id = p.idOf(id)
	}
	return string(id), ok && id != nil
}

// publish publishes the rows of the ids that were collected. What is behind the last one that Kafka has is read again by
// a run that goes on.
func (p *positions) publish(ctx context.Context, span *positionSpan) error {
	if len(p.ids) == 0 {
		return nil
	}
	found, wanted := map[string]bool{}, map[string]bool{}
	for _, rows := range p.tables {
		ids := p.ids
		if p.bytesAs != nil && rows.IDIsBytes() {
			ids = p.hexIDs(ids)
		}
		at := map[string]positionSpan{}
		for i, id := range ids {
			wanted[id], at[id] = true, p.at[i]
		}
		err := rows.ByID(ctx, ids, func(rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key, chosen bool) error {
			if found[key.ID] = true; !chosen {
				return nil
			}
			var done func()
			if to, ok := at[key.ID]; ok && len(p.tables) == 1 {
				done = func() { span.From, span.High = to.From, to.High }
			}
			return p.take(ctx, rel, row, done)
		})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	p.state.Absent += int64(max(len(wanted)-len(found), 0))
	last := p.at[len(p.at)-1]
	span.From, span.High = last.From, last.High
	p.ids, p.at = p.ids[:0], p.at[:0]
	return p.state.save()
}

// hexIDs are ids of a bytea column as Postgres prints them.
func (p *positions) hexIDs(ids []string) []string {
	out := slices.Clone(ids)
	for i, id := range ids {
		if raw, err := p.bytesAs(id); err == nil {
			out[i] = `\x` + hex.EncodeToString(raw)
		}
	}
	return out
}

// verdict says what of the window was not found.
func (p *positions) verdict() error {
	st := p.state
	if st.Repeated > 0 {
		fmt.Fprintf(p.progress, "%d records of the window were repeats, or lay behind others: passed over.\n", st.Repeated)
	}
	f := &fault.Error{Kind: fault.Operator, Object: "replay"}
	switch {
	case st.Rows+p.bad+st.Absent == 0 && st.Unplaced > 0:
		f.Err = fmt.Errorf("%d records have no header position, and no other lies in the window", st.Unplaced)
		f.Next = "Choose by time instead: --since and --until. With the preset debezium records have the header only with router.debezium.position_header."
	case st.Absent > 0:
		f.Err = fmt.Errorf("%d events of the window are not in the table any more", st.Absent)
		f.Next = "What prune --archive wrote is replayed with --from-archive, and --since and --until."
	default:
		return nil
	}
	return f
}
