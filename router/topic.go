package router

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// role is a part of an event that may stand in a topic template. The id, the payload, headers and timestamp may not:
// they would give each event a topic of its own.
type role uint8

const (
	literal role = iota
	roleAggregateType
	roleAggregateID
	roleType
	roleColumn // any other column, by name
)

var placeholders = map[string]role{
	"aggregate_type": roleAggregateType,
	"aggregate_id":   roleAggregateID,
	"type":           roleType,
}

// columnPlaceholder starts a placeholder of a column that has no role, such as ${column:region}.
const columnPlaceholder = "column:"

// part is a literal or a placeholder of a topic template.
type part struct {
	role role
	text string // of a literal; for roleColumn the column's name
}

// topics names the topic of a row. Names seen before come from a cache, which saves the check and the allocation.
type topics struct {
	parts []part
	taken string // name that is none for events
	seen  map[string]string
	buf   []byte
}

// maxTopics bounds the cache of names: a template with ${aggregate_id} may make any number of them.
const maxTopics = 10_000

func newTopics(template string) (*topics, error) {
	parts, err := parseTemplate(template)
	if err != nil {
		return nil, &fault.Error{
			Kind:   fault.Config,
			Object: "router.topic",
			Err:    err,
			Next:   `Write a template such as "` + DefaultTopic + `".`,
		}
	}
	return &topics{parts: parts, seen: make(map[string]string)}, nil
}

func parseTemplate(template string) ([]part, error) {
	var parts []part
	rest := template
	for rest != "" {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			if err := checkChars(before); err != nil {
				return nil, err
			}
			parts = append(parts, part{text: before})
		}
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return nil, errors.New("a placeholder lacks its closing brace")
		}
		r, known := placeholders[name]
		column, isColumn := strings.CutPrefix(name, columnPlaceholder)
		switch {
		case known:
			parts = append(parts, part{role: r})
		case isColumn && column != "":
			parts = append(parts, part{role: roleColumn, text: column})
		default:
			return nil, fmt.Errorf("unknown placeholder %q; there are ${aggregate_type}, ${aggregate_id}, ${type} and ${column:NAME}", "${"+name+"}")
		}
		rest = tail
	}
	return parts, checkLiteral(parts)
}

// checkLiteral finds the templates that can't give a legal name whatever the row holds.
func checkLiteral(parts []part) error {
	var fixed strings.Builder
	constant := true
	for _, p := range parts {
		if p.role == literal {
			fixed.WriteString(p.text)
			continue
		}
		constant = false
	}
	if constant {
		return CheckTopic(fixed.String())
	}
	if parts[0].role == literal && strings.HasPrefix(parts[0].text, "__") {
		return errInternalTopic
	}
	if fixed.Len() >= maxTopicName {
		return errTopicLength
	}
	return nil
}

// constant returns the name where it depends on no row.
func (t *topics) constant() (string, bool) {
	var name strings.Builder
	for _, p := range t.parts {
		if p.role != literal {
			return "", false
		}
		name.WriteString(p.text)
	}
	return name.String(), true
}

// of returns the topic for a row.
func (t *topics) of(l *layout, row pgoutput.Tuple) (string, *RowError) {
	t.buf = t.buf[:0]
	for i := range t.parts {
		p := &t.parts[i]
		if p.role == literal {
			t.buf = append(t.buf, p.text...)
			continue
		}
		f := l.topic[i]
		text, err := l.text(row, f)
		if err != nil {
			return "", err
		}
		if len(text) == 0 {
			return "", l.unroutable(row, f, text == nil)
		}
		t.buf = append(t.buf, text...)
	}
	if name, ok := t.seen[string(t.buf)]; ok {
		return name, nil
	}
	return t.check(l, row)
}

// check makes a new name of what is in the buffer.
func (t *topics) check(l *layout, row pgoutput.Tuple) (string, *RowError) {
	name := string(t.buf)
	if err := checkEventTopic(name, t.taken); err != nil {
		return "", l.refuse(row, IllegalTopic, t.column(l), err.Error(),
			"Correct what the application writes there, or change router.topic; names are never changed to fit.")
	}
	if len(t.seen) >= maxTopics {
		clear(t.seen)
	}
	t.seen[name] = name
	return name, nil
}

// column is the column to blame for an illegal name, if there is only one that the template takes.
func (t *topics) column(l *layout) string {
	found := ""
	for i := range t.parts {
		if t.parts[i].role == literal || l.topic[i].name == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = l.topic[i].name
	}
	return found
}

// partField is the column that a part of a template takes; a literal takes none.
func (l *layout) partField(p *part) field {
	switch p.role {
	case roleAggregateType:
		return l.aggregateType
	case roleAggregateID:
		return l.aggregateID
	case roleType:
		return l.eventType
	case roleColumn:
		return l.find(p.text)
	default:
		return field{index: -1}
	}
}

func (l *layout) unroutable(row pgoutput.Tuple, f field, null bool) *RowError {
	what := "the value is empty"
	if null {
		what = "the value is NULL"
	}
	return l.refuse(row, Unroutable, f.name, what+", so the event has no topic",
		"Declare the column NOT NULL with a CHECK that it isn't empty, so that no more such rows come.")
}

const maxTopicName = 249

var (
	errTopicLength   = fmt.Errorf("a topic name has 1 to %d characters", maxTopicName)
	errTopicDots     = errors.New(`a topic can't be named "." or ".."`)
	errInternalTopic = errors.New(`topics whose names start with "__" are internal to Kafka`)
)

// errLetterTopic: in the topic of dead letters an event would be taken for one, and its headers for what became of another.
var errLetterTopic = errors.New("the topic is that of the dead letters")

func checkEventTopic(name, taken string) error {
	if name == taken {
		return errLetterTopic
	}
	return CheckTopic(name)
}

// CheckTopic says whether name is a legal topic name that isn't internal to Kafka. The rules are those of Kafka's
// org.apache.kafka.common.internals.Topic; in addition every name that starts with "__" is refused, which covers
// __consumer_offsets, __transaction_state, __share_group_state and whatever comes. The error doesn't repeat the
// name: it may hold data.
func CheckTopic(name string) error {
	switch {
	case name == "" || len(name) > maxTopicName:
		return errTopicLength
	case name == "." || name == "..":
		return errTopicDots
	case strings.HasPrefix(name, "__"):
		return errInternalTopic
	}
	return checkChars(name)
}

func checkChars(s string) error {
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("a topic name consists of letters a-z and A-Z, digits, '.', '_' and '-', and can't hold %U at byte %d", c, i)
		}
	}
	return nil
}
