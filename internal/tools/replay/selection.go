package replay

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Choice names the rows to publish and their topic, as the flags of replay have it. A state file belongs to one choice.
type Choice struct {
	Types        []string `json:"aggregate_types,omitempty"`
	AggregateIDs []string `json:"aggregate_ids,omitempty"`
	IDs          []string `json:"ids,omitempty"`
	Since        string   `json:"since,omitempty"`
	Until        string   `json:"until,omitempty"`
	Topic        string   `json:"topic,omitempty"`
	Files        []string `json:"files,omitempty"`
	FromPosition string   `json:"from_position,omitempty"`
	ToPosition   string   `json:"to_position,omitempty"`
	FromTopics   []string `json:"from_topics,omitempty"`
}

// ByPosition reports whether rows are chosen by their place in the log.
func (c *Choice) ByPosition() bool { return c.FromPosition != "" || c.ToPosition != "" }

// Check refuses a choice that contradicts itself. all is true if every row is wanted.
func (c *Choice) Check(all bool) error {
	if _, err := c.filter(); err != nil {
		return err
	}
	chosen := len(c.Types)+len(c.AggregateIDs)+len(c.IDs) > 0 || c.Since != "" || c.Until != "" || c.ByPosition()
	if len(c.Files) > 0 && (all || c.ByPosition()) {
		return fault.Usage("--from-archive knows no positions, and takes all rows anyway",
			"choose by --aggregate-type, --aggregate-id, --id, --since or --until, or by nothing")
	}
	if len(c.FromTopics) > 0 && !c.ByPosition() {
		return fault.Usage("--from-topic is where positions are looked for",
			"add --from-position or --to-position; --topic is where records go")
	}
	if _, err := c.window(); err != nil {
		return err
	}
	if len(c.Files) == 0 && all == chosen {
		return fault.Usage("it is not said which rows to publish",
			"choose by --aggregate-type, --aggregate-id, --id, --since, --until, --from-position or --to-position, "+
				"or take --all")
	}
	if c.Topic != "" {
		if err := router.CheckTopic(c.Topic); err != nil {
			return fault.Usage("--topic: "+err.Error(), "name a topic as Kafka takes it")
		}
	}
	return nil
}

// filter is the part that a table or a file can decide.
func (c *Choice) filter() (f outboxtable.Filter, err error) {
	f = outboxtable.Filter{AggregateTypes: c.Types, AggregateIDs: c.AggregateIDs, IDs: c.IDs}
	if f.Since, err = ParseTime("--since", c.Since); err == nil {
		f.Until, err = ParseTime("--until", c.Until)
	}
	return f, err
}

// ParseTime reads the time of a flag; without a text it returns the zero time.
func ParseTime(flag, text string) (t time.Time, err error) {
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil {
		return t, fault.Usage(fmt.Sprintf("%s is not a time: %q", flag, text), "write it as 2026-01-31T08:00:00Z")
	}
	return t, nil
}
