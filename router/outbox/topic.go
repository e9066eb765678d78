package outbox

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
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
	roleTopic  // of the record; only a subject is built from it
)

var placeholders = map[string]role{
	"aggregate_type": roleAggregateType,
	"aggregate_id":   roleAggregateID,
	"type":           roleType,
	"table":          roleTable,
	"schema":         roleSchema,
}

// subjectPlaceholders are the placeholders of a subject in a schema registry.
var subjectPlaceholders = func() map[string]role {
	all := maps.Clone(placeholders)
	all["topic"] = roleTopic
	return all
}()

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
	parts, err := parseParts(template, placeholders, router.CheckChars)
	if err != nil {
		return nil, err
	}
	return parts, checkLiteral(parts)
}

// parseParts parses a template with these placeholders, whose literals have to pass the check.
func parseParts(template string, names map[string]role, check func(string) error) ([]part, error) {
	var parts []part
	rest := template
	for rest != "" {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			if err := check(before); err != nil {
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
		r, known := names[name]
		column, isColumn := strings.CutPrefix(name, columnPlaceholder)
		switch {
		case known:
			parts = append(parts, part{role: r})
		case isColumn && column != "":
			parts = append(parts, part{role: roleColumn, text: column})
		default:
			return nil, unknownPlaceholder(name, names)
		}
		rest = tail
	}
	return parts, nil
}

func unknownPlaceholder(name string, names map[string]role) error {
	topic := ""
	if _, has := names["topic"]; has {
		topic = "${topic}, "
	}
	return fmt.Errorf("unknown placeholder %q; there are %s${aggregate_type}, ${aggregate_id}, ${type}, "+
		"${column:NAME}, ${table} and ${schema}", "${"+name+"}", topic)
}

// checkRoles finds placeholders of columns that the configuration does not name.
func (t *topics) checkRoles(c Columns) error {
	for _, p := range t.parts {
		if p.role == roleAggregateType && c.AggregateType == "" {
			return configError("topic", "Name the column in router.columns.aggregate_type, or leave "+
				"${aggregate_type} out.", errAbsentRole)
		}
		if p.role == roleType && c.Type == "" {
			return configError("topic", "Name the column in router.columns.type, or leave ${type} out.", errAbsentRole)
		}
	}
	return nil
}

var errAbsentRole = errors.New("it names a column that the table does not have")

// absentRole is the error if parts name a column by a role that no column has.
func absentRole(parts []part, c Columns) error {
	for _, p := range parts {
		if p.role == roleAggregateType && c.AggregateType == "" || p.role == roleType && c.Type == "" {
			return errAbsentRole
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
	buf, err := l.expand(t.buf[:0], t.parts, l.topic, row, "")
	if err != nil {
		return seenTopic{}, err
	}
	t.buf = buf
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

// expand appends the text that a template gives for a row. fields are the columns of its parts, beside them. topic is
// the record's topic for the template of a subject, and empty for the template of topics.
func (l *rowPlan) expand(dst []byte, parts []part, fields []layout.Field, row pgoutput.Tuple, topic string) (
	[]byte, *router.RowError,
) {
	for i := range parts {
		p := &parts[i]
		switch p.role {
		case literal:
			dst = append(dst, p.text...)
			continue
		case roleTable:
			dst = append(dst, l.Rel.Name...)
			continue
		case roleSchema:
			dst = append(dst, l.Rel.Namespace...)
			continue
		case roleTopic:
			dst = append(dst, topic...)
			continue
		}
		text, err := l.Text(row, fields[i])
		if err != nil {
			return nil, err
		}
		switch {
		case len(text) > 0:
		case topic == "":
			return nil, l.Unroutable(row, fields[i], text == nil)
		default:
			return nil, l.withoutSubject(row, fields[i])
		}
		dst = append(dst, text...)
	}
	return dst, nil
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
