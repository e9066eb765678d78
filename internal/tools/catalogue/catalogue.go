package catalogue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Options are the rows, and where consumers are known.
type Options struct {
	Preview preview.Options
	Type    string // column with the type of an event; a row without it has the type of its record's header
	Last    int    // rows of each table
	Known   func() []schemaregistry.Known
	Reader  sink.OpenReader // nil: consumers are not asked for
}

// Catalogue is what the latest rows show.
type Catalogue struct {
	Rows      int        `json:"rows"`
	BadRows   int        `json:"bad_rows"` // that become no record, and so belong to no event below
	Since     *time.Time `json:"since"`    // of the oldest row; null: there are none
	Events    []Event    `json:"events"`
	Consumers []Consumer `json:"consumers"`
	Unknown   string     `json:"consumers_unknown,omitempty"` // why consumers are not known
}

// Event is a type of events in a topic, with one schema.
type Event struct {
	Type    string `json:"type"`
	Topic   string `json:"topic"`
	Table   string `json:"table"`
	Keyed   bool   `json:"keyed"` // of all rows
	Schema  int32  `json:"schema_id,omitempty"`
	Subject string `json:"subject,omitempty"`
	Version string `json:"version,omitempty"` // of the subject, as rows ask for it

	Rows  int       `json:"rows"`
	First time.Time `json:"first_seen"`
	Last  time.Time `json:"last_seen"`

	Headers []string `json:"headers"`
}

// Consumer is a group that has read a topic.
type Consumer struct {
	Group string `json:"group"`
	Topic string `json:"topic"`
	Lag   int64  `json:"lag"` // records, with the markers of transactions
}

type kind struct {
	table, topic, name string
	schema             int32
}

// Build reads the latest rows, and asks the broker for consumers of their topics.
func Build(ctx context.Context, o Options) (*Catalogue, error) {
	c := &Catalogue{Events: []Event{}, Consumers: []Consumer{}}
	seen := map[kind]*Event{}
	named := &naming{Router: o.Preview.Router, column: o.Type}
	o.Preview.Router = named
	n, err := preview.Rows(ctx, o.Preview, nil, o.Last, func(r *preview.Record) error {
		if r.Bad != nil {
			c.BadRows++
			return nil
		}
		c.add(seen, named.name, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.Rows = n
	for _, e := range seen {
		slices.Sort(e.Headers)
		c.Events = append(c.Events, *e)
	}
	slices.SortFunc(c.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Table, b.Table),
			cmp.Compare(a.Schema, b.Schema))
	})
	c.nameSchemas(o.Known())
	return c, c.consumers(ctx, o.Reader)
}

// add counts a row's record.
func (c *Catalogue) add(seen map[kind]*Event, name string, r *preview.Record) {
	if name == "" {
		name = typeHeader(r.Headers)
	}
	k := kind{r.Table, r.Topic, name, r.SchemaID}
	e := seen[k]
	if e == nil {
		e = &Event{
			Type: name, Topic: r.Topic, Table: r.Table, Schema: r.SchemaID, Keyed: true, First: *r.Timestamp,
			Last: *r.Timestamp, Headers: []string{},
		}
		seen[k] = e
	}
	e.Rows++
	e.Keyed = e.Keyed && (r.Key != nil || r.KeyBase64 != nil)
	if r.Timestamp.Before(e.First) {
		e.First = *r.Timestamp
	}
	if r.Timestamp.After(e.Last) {
		e.Last = *r.Timestamp
	}
	if c.Since == nil || r.Timestamp.Before(*c.Since) {
		c.Since = r.Timestamp
	}
	for _, h := range r.Headers {
		if !slices.Contains(e.Headers, h.Name) && len(e.Headers) < maxHeaders {
			e.Headers = append(e.Headers, h.Name)
		}
	}
}

// maxHeaders bounds the names of an event's headers: a headers column may invent one for each row.
const maxHeaders = 50

// typeHeader is the type as a record names it.
func typeHeader(headers []preview.Header) string {
	for _, name := range []string{"type", "ce_type", "eventType"} {
		for _, h := range headers {
			if h.Name == name && h.Value != nil {
				return *h.Value
			}
		}
	}
	return ""
}

// naming keeps the type of the row that was routed last.
type naming struct {
	router.Router
	column string
	name   string
}

// Route implements router.Router.
func (n *naming) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	n.name = ""
	for i := range rel.Columns {
		if rel.Columns[i].Name == n.column && i < len(row) {
			n.name = string(row[i].Data)
		}
	}
	return n.Router.Route(rel, row, src)
}

// nameSchemas adds the names of schemas that a registry has answered with.
func (c *Catalogue) nameSchemas(known []schemaregistry.Known) {
	for i := range c.Events {
		e := &c.Events[i]
		for _, k := range known {
			if e.Schema != 0 && k.ID == e.Schema {
				e.Subject, e.Version = k.Subject, k.Version.String()
				break
			}
		}
	}
}

// consumers asks the broker. A topic that does not exist yet has none.
func (c *Catalogue) consumers(ctx context.Context, open sink.OpenReader) error {
	if open == nil {
		c.Unknown = "they were not asked for"
		return nil
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	groups, ok := r.(sink.GroupReader)
	if !ok {
		c.Unknown = r.Names().Broker + " keeps no groups of consumers"
		return nil
	}
	var spans []sink.Span
	for i := range c.Events {
		topic := c.Events[i].Topic
		if i > 0 && topic == c.Events[i-1].Topic {
			continue
		}
		of, err := r.Spans(ctx, topic)
		if errors.Is(err, sink.ErrNoTopic) {
			continue
		}
		if err != nil {
			return c.unknown(ctx, err)
		}
		spans = append(spans, of...)
	}
	if len(spans) == 0 {
		return nil
	}
	found, err := groups.Groups(ctx, spans)
	if err != nil {
		return c.unknown(ctx, err)
	}
	for _, g := range found {
		c.Consumers = append(c.Consumers, Consumer{g.Name, g.Topic, g.Lag})
	}
	return nil
}

// unknown keeps the catalogue, which is about rows, where the broker gives no answer.
func (c *Catalogue) unknown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.Unknown = err.Error()
	return nil
}
