package outbox

import (
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// role is a part of an event that a topic template may name. A template may not name the id, the payload, headers and
// timestamp: each event would get a topic of its own.
type role uint8

const (
	literal role = iota
	roleAggregateType
	roleAggregateID
	roleType
	roleColumn // any other column, by name
	roleTable  // name of the relation
	roleSchema // and its schema
)

var placeholders = map[string]role{
	"aggregate_type": roleAggregateType,
	"aggregate_id":   roleAggregateID,
	"type":           roleType,
	"table":          roleTable,
	"schema":         roleSchema,
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
	from  *regexp.Regexp // its matches are replaced in the name; nil: nothing
	to    string
	taken string // name that is none for events
	seen  map[string]seenTopic
	buf   []byte

	// recent has the names of the last rows, at the hash of the template's result: one line of the processor's cache
	// each, while a search in seen takes several.
	recent []recentTopic
	seed   maphash.Seed
}

const recentTopics = 4096

// recentTopic is a seenTopic of a short name: 64 bytes.
type recentTopic struct {
	name   string
	number uint32 // 0: none
	length uint8  // of built
	built  [43]byte
}

// seenTopic is a name that was checked.
type seenTopic struct {
	name   string // renamed
	number uint32 // from 1
}

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
	return &topics{
		parts: parts, seen: make(map[string]seenTopic), recent: make([]recentTopic, recentTopics),
		seed: maphash.MakeSeed(),
	}, nil
}

func parseTemplate(template string) ([]part, error) {
	var parts []part
	rest := template
	for rest != "" {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			if err := router.CheckChars(before); err != nil {
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
			return nil, fmt.Errorf("unknown placeholder %q; there are ${aggregate_type}, ${aggregate_id}, ${type}, "+
				"${column:NAME}, ${table} and ${schema}", "${"+name+"}")
		}
		rest = tail
	}
	return parts, checkLiteral(parts)
}

// checkRoles finds placeholders of columns that the configuration does not name.
func (t *topics) checkRoles(c Columns) error {
	for _, p := range t.parts {
		if p.role == roleAggregateType && c.AggregateType == "" {
			return configError("topic", "Name the column in router.columns.aggregate_type, or leave "+
				"${aggregate_type} out.", errors.New("it names a column that the table does not have"))
		}
		if p.role == roleType && c.Type == "" {
			return configError("topic", "Name the column in router.columns.type, or leave ${type} out.",
				errors.New("it names a column that the table does not have"))
		}
	}
	return nil
}

// checkLiteral finds the templates that cannot give a legal name whatever the row holds.
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
		return router.CheckTopic(fixed.String())
	}
	if parts[0].role == literal && strings.HasPrefix(parts[0].text, "__") {
		return router.ErrInternalTopic
	}
	if fixed.Len() >= router.MaxTopicName {
		return router.ErrTopicLength
	}
	return nil
}

// constant returns the name if it depends on no row.
func (t *topics) constant() (string, bool) {
	var name strings.Builder
	for _, p := range t.parts {
		if p.role != literal {
			return "", false
		}
		name.WriteString(p.text)
	}
	return t.renamed(name.String()), true
}

// rename sets the pattern and the replacement of renamed.
func (t *topics) rename(pattern, replacement string) error {
	if pattern == "" {
		if replacement != "" {
			return configError("topic_replacement", "Set router.topic_regex, too.",
				errors.New("there is nothing to replace"))
		}
		return nil
	}
	var err error
	t.from, err = regexp.Compile(pattern)
	t.to = replacement
	return configError("topic_regex", "Write a regular expression of Go (RE2).", err)
}

// renamed returns the name with every match of the expression replaced.
func (t *topics) renamed(name string) string {
	if t.from == nil {
		return name
	}
	return t.from.ReplaceAllString(name, t.to)
}

// Renamed returns how a configuration that New accepts changes the names that its template gives; nil: not at all.
func (cfg Config) Renamed() func(name string) string {
	t := &topics{}
	if cfg.TopicRegex == "" || t.rename(cfg.TopicRegex, cfg.TopicReplacement) != nil {
		return nil
	}
	return t.renamed
}

// topicOf returns the topic for a row.
func (t *topics) topicOf(l *rowPlan, row pgoutput.Tuple) (seenTopic, *router.RowError) {
	t.buf = t.buf[:0]
	for i := range t.parts {
		p := &t.parts[i]
		switch p.role {
		case literal:
			t.buf = append(t.buf, p.text...)
			continue
		case roleTable:
			t.buf = append(t.buf, l.Rel.Name...)
			continue
		case roleSchema:
			t.buf = append(t.buf, l.Rel.Namespace...)
			continue
		}
		f := l.topic[i]
		text, err := l.Text(row, f)
		if err != nil {
			return seenTopic{}, err
		}
		if len(text) == 0 {
			return seenTopic{}, l.Unroutable(row, f, text == nil)
		}
		t.buf = append(t.buf, text...)
	}
	at := &t.recent[maphash.Bytes(t.seed, t.buf)%recentTopics]
	if at.number != 0 && string(at.built[:at.length]) == string(t.buf) {
		return seenTopic{at.name, at.number}, nil
	}
	seen, ok := t.seen[string(t.buf)]
	if !ok {
		var err *router.RowError
		if seen, err = t.check(l, row); err != nil {
			return seenTopic{}, err
		}
	}
	if len(t.buf) <= len(at.built) {
		at.name, at.number, at.length = seen.name, seen.number, uint8(copy(at.built[:], t.buf))
	}
	return seen, nil
}

// check makes a new name of the buffer's text.
func (t *topics) check(l *rowPlan, row pgoutput.Tuple) (seenTopic, *router.RowError) {
	built := string(t.buf)
	name := t.renamed(built)
	if err := router.CheckEventTopic(name, t.taken); err != nil {
		return seenTopic{}, l.Refuse(row, router.IllegalTopic, t.column(l), err.Error(),
			"Correct what the application writes there, or change router.topic or router.topic_regex; names are never "+
				"changed to fit.")
	}
	if len(t.seen) >= layout.MaxTopics {
		clear(t.seen)
		clear(t.recent) // the numbers begin again
	}
	seen := seenTopic{name, uint32(len(t.seen) + 1)}
	t.seen[built] = seen
	return seen, nil
}

// column is the column to blame for an illegal name, if there is only one that the template takes.
func (t *topics) column(l *rowPlan) string {
	found := ""
	for i := range t.parts {
		if l.topic[i].Name == "" || l.topic[i].Name == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = l.topic[i].Name
	}
	return found
}

// partField is the column that a part of a template takes; a literal and the table's name take none.
func (l *rowPlan) partField(p *part) layout.Field {
	switch p.role {
	case roleAggregateType:
		return l.aggregateType
	case roleAggregateID:
		return l.aggregateID
	case roleType:
		return l.eventType
	case roleColumn:
		return l.Find(p.text)
	default:
		return layout.Field{Index: -1}
	}
}
