package migrate

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// settings are keys of ours with their values: text, truth value, number, list or mapping.
type settings map[string]any

func (s settings) set(key string, value any) { s[key] = value }

// yaml writes the settings that differ from their defaults, in the order of the reference, with their comments.
func (m *migration) yaml(entries []Entry) string {
	doc := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{"": doc}
	for _, f := range config.Fields() {
		value, ok := m.out[f.Key]
		if !ok || same(value, f.Default) {
			continue
		}
		node := &yaml.Node{}
		if err := node.Encode(value); err != nil {
			continue // none of the types above fails
		}
		if node.Kind == yaml.SequenceNode {
			node.Style = yaml.FlowStyle
		}
		m.insertNode(sections, f.Key, node)
	}
	head := "# Written by cdc-outbox migrate debezium from the connector " + oneLine(m.in.Name) + "."
	if m.in.Name == "" {
		head = "# Written by cdc-outbox migrate debezium."
	}
	if note := m.notes["postgres"]; note != "" {
		head += "\n# " + strings.ReplaceAll(note, "\n", "\n# ")
	}
	m.undecided(doc, entries)
	var b strings.Builder
	b.WriteString(head + "\n# Only what differs from the defaults: cdc-outbox config shows all of it.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return ""
	}
	return b.String()
}

// undecided puts the open decisions at the top of the file, under a key that makes every command refuse it. Otherwise a
// user who does not read the report would write other records than before.
func (m *migration) undecided(doc *yaml.Node, entries []Entry) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, e := range entries {
		if e.Verdict == Decide || e.Verdict == Refused || e.Verdict == Unknown {
			item := &yaml.Node{
				Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: e.Option + ": " + e.Note,
			}
			if config.IsKey(e.Key) { // a variable or a flag for it settles the decision, too
				item = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
					{Kind: yaml.ScalarNode, Value: e.Key}, item,
				}}
			}
			list.Content = append(list.Content, item)
		}
	}
	if len(list.Content) == 0 {
		return
	}
	key := &yaml.Node{
		Kind: yaml.ScalarNode, Value: config.Undecided,
		HeadComment: "Settle each of these, then delete its line: while one line remains, " +
			"cdc-outbox refuses this file. A line that begins with a key can also be settled by the key's variable " +
			"or flag.",
	}
	doc.Content = append([]*yaml.Node{key, list}, doc.Content...)
}

// oneLine keeps a name within one line of a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// insertNode puts the node under its sections, which it creates when they are needed.
func (m *migration) insertNode(sections map[string]*yaml.Node, key string, node *yaml.Node) {
	section, name, ok := cutLast(key, ".")
	if !ok {
		section, name = "", key
	}
	if sections[section] == nil {
		sections[section] = &yaml.Node{Kind: yaml.MappingNode}
		m.insertNode(sections, section, sections[section])
	}
	k := &yaml.Node{Kind: yaml.ScalarNode, Value: name}
	if note := m.notes[key]; note != "" {
		k.HeadComment = note
	}
	sections[section].Content = append(sections[section].Content, k, node)
}

// same reports whether the value is the default, as the reference writes it.
func same(value any, def string) bool {
	switch v := value.(type) {
	case []string:
		return slices.Equal(v, strings.Split(def, ",")) || len(v) == 0 && def == ""
	case map[string]string:
		return len(v) == 0
	}
	return fmt.Sprint(value) == def
}
