package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// Wishes are what a person has said about the file.
type Wishes struct {
	Table string // schema.table; empty: the likeliest
	Key   string // column of the record's key, or COLUMN/MEMBER of JSON; empty: by the columns' names

	// Ask asks for Key where the columns do not show it; an empty answer leaves it open. It asks again while valid
	// returns an error. Nil: no person is there.
	Ask func(question string, valid func(key string) error) (key string, err error)
}

// keyWanted is the decision about the record's key.
const keyWanted = "Name the column that becomes the record's key: events with one key stay in order. It cannot be " +
	"empty: if none needs an order, name the column of the id."

// choices names the columns that can have the role.
func (m *match) choices(role string) string {
	var names, objects []string
	for _, c := range m.Columns {
		others := []string{"payload", "headers", writers.Topic, "timestamp"}
		fixed := slices.ContainsFunc(others, func(other string) bool {
			return other != role && m.columns[other] == c.Name
		})
		if writers.Suits(role, c.Type) && !fixed {
			names = append(names, c.Name)
		}
		if c.Name == m.columns["payload"] && c.Type != "bytea" || writers.Suits("headers", c.Type) &&
			c.Name == m.columns["headers"] {
			objects = append(objects, c.Name)
		}
	}
	text := " No column of the table has a type that suits it."
	if len(names) > 0 {
		text = " By their types it can be " + strings.Join(names, ", ") + "."
	}
	if role == "aggregate_id" && len(objects) > 0 {
		text += fmt.Sprintf(" A member of JSON in %s can be it, too, such as %s/order_id; router.json_columns names "+
			"it.", strings.Join(objects, " or "), escaped(objects[0]))
	}
	return text
}

// decideKey takes the key that was wished for, or asks for it where no column has it by its name.
func (m *match) decideKey(w Wishes) error {
	key := w.Key
	if m.writer != nil {
		if key != "" {
			return keyError("the table is of "+m.writer.Name+", whose key is known",
				"Leave out --key, and change the file if its key is another; docs/writers.md explains it.")
		}
		return nil
	}
	if key == "" && m.columns["aggregate_id"] == "" && w.Ask != nil {
		question := "Table " + printableName(m.String()) + ": " + printableName(keyWanted+m.choices("aggregate_id"))
		var err error
		if key, err = w.Ask(question, func(key string) error { return m.copy().takeKey(key) }); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	return m.takeKey(key)
}

// takeKey makes the column, or the member of a column, the record's key.
func (m *match) takeKey(key string) error {
	if i := slices.IndexFunc(m.Columns, func(c writers.Column) bool { return c.Name == key }); i >= 0 {
		if c := m.Columns[i]; !writers.Suits("aggregate_id", c.Type) {
			return keyError(fmt.Sprintf("column %s is %s", key, c.Type), m.choices("aggregate_id"))
		}
		m.columns["aggregate_id"] = key
		return nil
	}
	column, member, _ := strings.Cut(key, "/")
	column = strings.NewReplacer("~1", "/", "~0", "~").Replace(column)
	if member == "" || !slices.Contains(m.names(), column) {
		return keyError("the table has no column "+column, m.choices("aggregate_id"))
	}
	name := member[strings.LastIndex(member, "/")+1:]
	for slices.Contains(m.names(), name) {
		name += "_of_" + column
	}
	m.columns["aggregate_id"], m.member = name, key
	return nil
}

func keyError(what, next string) error {
	return &fault.Error{
		Kind: fault.Config, Object: "--key", Err: errors.New(printableName(what)),
		Next: strings.TrimSpace(printableName(next)),
	}
}

// copy is a match that an answer can be tried on.
func (m *match) copy() *match {
	other := *m
	other.columns = maps.Clone(m.columns)
	return &other
}

// escaped is a column's name in router.json_columns.
func escaped(column string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(column) }
