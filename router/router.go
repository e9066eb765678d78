package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router/internal/pgtype"
)

// Source is where a row stands in the log.
type Source struct {
	Position   []byte    // text of the row's position; becomes the position header, not copied. nil: no header
	CommitTime time.Time // of the row's transaction
}

// Router makes records of rows, see the package comment. It isn't safe for concurrent use.
type Router struct {
	cfg     Config
	topics  *topics
	payload payloads
	headers headers
	needs   []Need

	columnHeaders, extensions []namedColumn

	buf []byte // of a key or a value that is put together

	layouts map[uint32]*layout // by relation OID
	last    *layout

	record Record

	messages *messages // nil until the first one

	debezium *debezium // in place of all the above, with the preset debezium
}

// New checks the configuration. The error joins one *fault.Error of kind Config per problem.
func New(cfg Config) (*Router, error) {
	if cfg.Debezium != nil {
		d, err := newDebezium(cfg.Debezium)
		if err != nil {
			return nil, err
		}
		d.taken = cfg.DeadLetterTopic
		return &Router{debezium: d}, nil
	}
	t, terr := newTopics(cfg.Topic)
	if terr == nil {
		t.taken = cfg.DeadLetterTopic
		if name, constant := t.constant(); constant && name == t.taken {
			terr = configError("topic", "Send events and dead letters to two topics.", errLetterTopic)
		}
	}
	r := &Router{cfg: cfg, topics: t, headers: headers{names: make(map[string]string)}, layouts: make(map[uint32]*layout)}
	if err := errors.Join(cfg.Columns.validate(), terr, r.setHeaders(), r.setFormat()); err != nil {
		return nil, err
	}
	r.needs = cfg.Needs()
	return r, nil
}

// Route makes the record of an inserted row. Columns are found by name in rel, once per *Relation. The Record and
// what it points to belong to the Router and to the row and live until the next call. The error is a *RowError. In
// the steady state it allocates nothing.
func (r *Router) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src Source) (*Record, error) {
	if r.debezium != nil {
		return r.debezium.makeRecord(r.debezium.planOf(rel), row, src)
	}
	l := r.layoutOf(rel)
	if err := r.route(l, row, src); err != nil {
		return nil, err
	}
	return &r.record, nil
}

// Prepare readies the router for a relation's rows, for which it may have to ask Catalog, whose error it returns. Route
// does without it, but with less knowledge.
func (r *Router) Prepare(rel *pgoutput.Relation) error {
	if r.debezium != nil {
		return r.debezium.prepare(rel)
	}
	l := r.layoutOf(rel)
	if l.resolved || l.payload.oid < pgtype.FirstNormalOID || r.cfg.Catalog == nil {
		return nil
	}
	c, err := r.cfg.Catalog(rel)
	if err != nil {
		return err
	}
	l.resolved = true
	for t, ok := c.Types[l.payload.oid]; ok && t.Base != 0; t, ok = c.Types[l.payload.oid] {
		l.payload.oid = t.Base
	}
	return nil
}

// Fits tells whether rel has every column that an event needs.
func (r *Router) Fits(rel *pgoutput.Relation) bool {
	if r.debezium != nil {
		return r.debezium.planOf(rel).missing == nil
	}
	return r.layoutOf(rel).missing == nil
}

// route fills r.record. The interface value is made here, so that no nil *RowError gets into it.
func (r *Router) route(l *layout, row pgoutput.Tuple, src Source) error {
	if err := l.check(row); err != nil {
		return err
	}
	id, err := l.text(row, l.id)
	if err != nil {
		return err
	}
	if id == nil {
		return l.refuse(row, NullID, l.id.name, "the event id is NULL, so consumers couldn't recognise a repeat",
			"Make the column the table's primary key, so that no more such rows come.")
	}
	if r.buf = r.buf[:0]; cap(r.buf) > maxKeptBuffer {
		r.buf = nil
	}
	key, err := r.key(l, row)
	if err != nil {
		return err
	}
	topic, err := r.topics.of(l, row)
	if err != nil {
		return err
	}
	return r.fill(l, row, src, topic, id, key)
}

// fill completes the record with what doesn't decide where it goes.
func (r *Router) fill(l *layout, row pgoutput.Tuple, src Source, topic string, id, key []byte) error {
	eventType, err := l.text(row, l.eventType)
	if err != nil {
		return err
	}
	timestamp, err := l.time(row, src.CommitTime)
	if err != nil {
		return err
	}
	list, err := r.headers.of(l, row, id, eventType, src.Position)
	if err != nil {
		return err
	}
	value, err := r.payload.of(l, row)
	if err != nil {
		return err
	}
	var trace []byte
	if r.cfg.Format != FormatPayload || r.cfg.Registry.SchemaIDColumn != "" {
		e := event{id: id, kind: eventType, payload: value, timestamp: timestamp, headers: list}
		if value, err = r.form(l, row, &e); err != nil {
			return err
		}
		list, trace = e.headers, e.trace
	}
	r.record = Record{Topic: topic, Partition: -1, Key: key, Value: value, Headers: list, Timestamp: timestamp, TraceID: trace}
	return nil
}

// check finds the rows of which nothing can be read.
func (l *layout) check(row pgoutput.Tuple) *RowError {
	if l.missing != nil {
		e := *l.missing
		l.identify(&e, row)
		return &e
	}
	if len(row) != l.width {
		return l.refuse(row, MalformedRow, "", fmt.Sprintf("the row has %d values for %d columns", len(row), l.width),
			"Report this as a bug.")
	}
	return nil
}

// time returns the record's timestamp in milliseconds since 1970.
func (l *layout) time(row pgoutput.Tuple, commit time.Time) (int64, *RowError) {
	if l.timestamp.index < 0 {
		return commit.UnixMilli(), nil
	}
	text, err := l.text(row, l.timestamp)
	if err != nil {
		return 0, err
	}
	if text == nil {
		return commit.UnixMilli(), nil
	}
	switch ms, how := parseTimestamp(text); how {
	case parsedOK:
		return ms, nil
	case parsedNoTime:
		return commit.UnixMilli(), nil
	default:
		return 0, l.refuse(row, BadTimestamp, l.timestamp.name, "the text isn't a timestamp in DateStyle ISO",
			"Map router.columns.timestamp to a column of type timestamptz or timestamp, or to no column.")
	}
}
