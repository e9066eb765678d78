package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// DefaultTopic is the topic template of the outbox preset.
const DefaultTopic = "${aggregate_type}.events"

// Config names the columns and the form of the record. Names are as in the catalog, unquoted, case kept.
type Config struct {
	Columns Columns

	// Topic is a template with the placeholders ${aggregate_type}, ${aggregate_id}, ${type}, ${column:NAME}, ${table}
	// and ${schema}.
	Topic string

	// TopicRegex and TopicReplacement change the name that the template gives: each match of the expression (RE2)
	// becomes the replacement, in which ${1} is the first group.
	TopicRegex, TopicReplacement string

	TimestampUnit string // s, ms or us of a timestamp column that counts from 1970; empty: it is a timestamp

	KeyColumns    []string // in place of Columns.AggregateID
	Format        string   // one of the Format constants; empty: FormatPayload
	StaticHeaders []string // name=value
	ColumnHeaders []string // column or column:name
	Envelope      Envelope
	CloudEvents   CloudEvents
	Registry      Registry

	DeadLetterTopic string // to which no event may lead; empty: none

	// Catalog says of which type a domain is. It is asked once for each Relation whose payload has a type without a
	// fixed OID. Without it the payload counts as text.
	Catalog func(rel *pgoutput.Relation) (router.Catalog, error)
}

// The formats of the record's value.
const (
	FormatPayload               = "payload"
	FormatEnvelope              = "envelope"
	FormatCloudEventsBinary     = "cloudevents_binary"
	FormatCloudEventsStructured = "cloudevents_structured"
)

// named is a column under another name.
type named struct {
	layout.Field
	name string
}

// namedColumn is one such entry of the configuration.
type namedColumn struct{ column, name string }

// parseNamed reads column and column:name.
func parseNamed(entry string) (namedColumn, error) {
	column, name, renamed := strings.Cut(entry, ":")
	column, name = strings.TrimSpace(column), strings.TrimSpace(name)
	if !renamed {
		name = column
	}
	if column == "" || name == "" {
		return namedColumn{}, fmt.Errorf("%q is neither column nor column:name", entry)
	}
	return namedColumn{column, name}, nil
}

// configError makes a problem of the configuration.
func configError(key, next string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Config, Object: "router." + key, Err: err, Next: next}
}

// Columns maps each part of an event to a column of the outbox table. ID, AggregateID and Payload must be named.
// AggregateType and Type are empty for a table without them: then the topic cannot be built from them, and records have
// no header type. Named columns must exist in the table, except Headers and Timestamp, which may be absent and may be
// empty.
type Columns struct {
	ID            string
	AggregateType string
	AggregateID   string
	Type          string
	Payload       string
	Headers       string
	Timestamp     string
}

// DefaultColumns returns the column names of the outbox preset.
func DefaultColumns() Columns {
	return Columns{
		ID:            "id",
		AggregateType: "aggregate_type",
		AggregateID:   "aggregate_id",
		Type:          "event_type",
		Payload:       "payload",
		Headers:       "headers",
		Timestamp:     "created_at",
	}
}

// validate reports every problem at once, each as a *fault.Error of kind Config.
func (c Columns) validate() error {
	required := []struct{ role, column string }{
		{"id", c.ID},
		{"aggregate_id", c.AggregateID},
		{"payload", c.Payload},
	}
	var errs []error
	for _, r := range required {
		if r.column == "" {
			errs = append(errs, &fault.Error{
				Kind:   fault.Config,
				Object: "router.columns." + r.role,
				Err:    errors.New("no column is named"),
				Next:   fmt.Sprintf("Name the column of the outbox table that holds the event's %s.", r.role),
			})
		}
	}
	return errors.Join(errs...)
}
