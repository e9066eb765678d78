package router

import (
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// DefaultTopic is the topic template of the outbox preset.
const DefaultTopic = "${aggregate_type}.events"

// Config says which columns hold what and how the topic is named.
type Config struct {
	Columns Columns // names as in the catalog, unquoted, case kept
	Topic   string  // template; placeholders ${aggregate_type}, ${aggregate_id}, ${type}

	Debezium *Debezium // the preset debezium, which has no use for the other fields
}

// Columns maps each part of an event to a column of the outbox table. ID, AggregateType, AggregateID, Type and
// Payload must be named and must exist in the table. Headers and Timestamp may be absent from the table, and may be
// empty here, which means that such a column isn't looked for.
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
		{"aggregate_type", c.AggregateType},
		{"aggregate_id", c.AggregateID},
		{"type", c.Type},
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
