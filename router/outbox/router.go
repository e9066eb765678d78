package outbox

import (
	"errors"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/message"
	"github.com/cdc-outbox/cdc-outbox/router/internal/pgtype"
)

// Router makes records of rows, see the package comment. It is not safe for concurrent use.
type Router struct {
	cfg     Config
	topics  *topics
	payload payloads
	headers headers
	frames  frames
	needs   []router.Need

	columnHeaders, extensions []namedColumn

	buf []byte // of a key or a value that is put together

	layouts map[uint32]*rowPlan // by relation OID
	last    *rowPlan

	record router.Record

	messages *message.Rows // nil until the first one
}

// New checks the configuration. The error joins one *fault.Error of kind Config per problem.
func New(cfg Config) (*Router, error) {
	t, terr := newTopics(cfg.Topic)
	if terr == nil {
		t.taken = cfg.DeadLetterTopic
		terr = t.rename(cfg.TopicRegex, cfg.TopicReplacement)
		if name, constant := t.constant(); constant && name == t.taken {
			terr = errors.Join(terr, configError("topic", "Send events and dead letters to two topics.",
				router.ErrLetterTopic))
		}
		terr = errors.Join(terr, t.checkRoles(cfg.Columns))
	} else {
		terr = errors.Join(terr, new(topics).rename(cfg.TopicRegex, cfg.TopicReplacement))
	}
	if _, ok := units[cfg.TimestampUnit]; !ok && cfg.TimestampUnit != "" {
		terr = errors.Join(terr, configError("timestamp_unit", "Set it to s, ms or us.",
			errors.New("there is no unit "+strconv.Quote(cfg.TimestampUnit))))
	}
	if cfg.Columns.Type == "" && cfg.Format != FormatPayload && cfg.Format != "" {
		terr = errors.Join(terr, configError("columns.type", "Name the column with the event's type, or set "+
			"router.format to "+FormatPayload+".", errors.New("the format "+cfg.Format+" needs it")))
	}
	r := &Router{
		cfg: cfg, topics: t, headers: headers{names: make(map[string]string)}, layouts: make(map[uint32]*rowPlan),
	}
	if err := errors.Join(cfg.Columns.validate(), terr, r.setHeaders(), r.setFormat()); err != nil {
		return nil, err
	}
	r.needs = cfg.Needs()
	return r, nil
}

// Route makes the record of an inserted row. Columns are found by name in rel, once per *Relation. The Record and its
// slices belong to the Router and to the row and live until the next call. The error is a *RowError, or an
// *UnresolvedSchema with Registry.Subject. In the steady state it allocates nothing.
func (r *Router) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	l := r.layoutOf(rel)
	if err := r.route(l, row, src); err != nil {
		return nil, err
	}
	return &r.record, nil
}

// Prepare readies the router for a relation's rows. It may have to ask Catalog, whose error it returns. Route works
// without Prepare, but with less knowledge.
func (r *Router) Prepare(rel *pgoutput.Relation) error {
	l := r.layoutOf(rel)
	if l.resolved || l.payload.Oid < pgtype.FirstNormalOID || r.cfg.Catalog == nil {
		return nil
	}
	c, err := r.cfg.Catalog(rel)
	if err != nil {
		return err
	}
	l.resolved = true
	for t, ok := c.Types[l.payload.Oid]; ok && t.Base != 0; t, ok = c.Types[l.payload.Oid] {
		l.payload.Oid = t.Base
	}
	return nil
}

// Fits reports whether rel has every column that an event needs.
func (r *Router) Fits(rel *pgoutput.Relation) bool {
	return r.layoutOf(rel).Missing == nil
}

// route fills r.record. The interface value is made here, so that no nil *RowError gets into it.
func (r *Router) route(l *rowPlan, row pgoutput.Tuple, src router.Source) error {
	if err := l.Check(row); err != nil {
		return err
	}
	id, err := l.Text(row, l.ID)
	if err != nil {
		return err
	}
	if id == nil {
		return l.Refuse(row, router.NullID, l.ID.Name,
			"the event id is NULL, so consumers could not recognise a repeat",
			"Make the column the table's primary key, so that no more such rows come.")
	}
	if r.buf = r.buf[:0]; cap(r.buf) > layout.MaxKeptBuffer {
		r.buf = nil
	}
	key, err := r.key(l, row)
	if err != nil {
		return err
	}
	topic, err := r.topics.topicOf(l, row)
	if err != nil {
		return err
	}
	return r.fill(l, row, src, topic, id, key)
}

// fill completes the record with the parts that do not decide its topic and key.
func (r *Router) fill(l *rowPlan, row pgoutput.Tuple, src router.Source, topic seenTopic, id, key []byte) error {
	eventType, err := l.Optional(row, l.eventType)
	if err != nil {
		return err
	}
	timestamp, err := l.Time(row, src.CommitTime)
	if err != nil {
		return err
	}
	list, err := r.headers.fillHeaders(l, row, id, eventType, src.Position)
	if err != nil {
		return err
	}
	value, err := r.payload.payloadOf(l, row)
	if err != nil {
		return err
	}
	var trace []byte
	var schema router.Schema
	if r.cfg.Format != FormatPayload || r.cfg.Registry.framed() {
		e := event{id: id, kind: eventType, payload: value, timestamp: timestamp, headers: list}
		var ferr error
		if value, ferr = r.form(l, row, topic.name, &e); ferr != nil {
			return ferr
		}
		list, trace, schema = e.headers, e.trace, e.schema
	}
	r.record = router.Record{
		Topic: topic.name, TopicNumber: topic.number, Partition: -1, Key: key, Value: value, Headers: list,
		Timestamp: timestamp, TraceID: trace, SchemaID: schema.ID, Encoder: schema.Encoder,
	}
	return nil
}
