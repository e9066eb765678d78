package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ID finds the id of a record's event: the same in every delivery of the event, and different for every other event. A
// record whose id it cannot find becomes a dead letter with the error as its reason. The message that it gets has no ID
// yet.
type ID func(m Message) (string, error)

// HeaderID takes the id from the first header that the record has of the names. Options.ID is HeaderID("id", "ce_id")
// by default: the relay's header, and a CloudEvent's.
func HeaderID(names ...string) ID {
	return func(m Message) (string, error) {
		if id := first(m.Headers, names...); id != "" {
			return id, nil
		}
		return "", fmt.Errorf("the record has no %s header", strings.Join(names, " or "))
	}
}

// MemberID takes the id from a member of the record's value, a JSON object: MemberID("eventId") for the relay's
// envelope, MemberID("payload", "id") for a member of a member. The member is a string or a number. A tombstone has no
// members: give such topics an id header.
func MemberID(path ...string) ID {
	name := strings.Join(path, ".")
	return func(m Message) (string, error) {
		if m.Value == nil {
			return "", fmt.Errorf("the record has no value, so no member %s", name)
		}
		value := json.RawMessage(m.Value)
		for _, member := range path {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(value, &members); err != nil {
				return "", fmt.Errorf("the record's value has no member %s: it is not such a JSON object", name)
			}
			value = members[member]
		}
		return scalar(value, name)
	}
}

// scalar returns a string or a number as text. A number keeps its digits.
func scalar(value json.RawMessage, name string) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return text, nil
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil && number != "" {
		return number.String(), nil
	}
	return "", fmt.Errorf("the record's value has no member %s that is a string or a number", name)
}

// identify finds the message's id.
func (c *Consumer) identify(m Message) (string, error) {
	id, err := c.opts.ID(m)
	if err == nil && id == "" {
		err = errors.New("the record has no id")
	}
	return id, err
}
