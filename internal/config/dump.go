package config

import (
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Value is one key of the effective configuration, in a form that may be shown.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Values returns every key with its value, secrets masked, in the order of Fields.
func (l *Loaded) Values() []Value {
	out := make([]Value, 0, len(fields()))
	for _, f := range fields() {
		out = append(out, Value{Key: f.Key, Value: l.maskedValue(f), Origin: l.Origins[f.Key].String()})
	}
	return out
}

// maskedValue returns the value as a file would hold it, without secrets.
func (l *Loaded) maskedValue(f Field) any {
	switch v := reflect.ValueOf(&l.Config).Elem().FieldByIndex(f.index).Interface().(type) {
	case Secret:
		if v.path == "" && f.mask == "dsn" {
			return redactDSN(v.literal)
		}
		return v.String()
	case time.Duration:
		return shortDuration(v)
	case Size:
		return v.String()
	case []string:
		if v == nil {
			return []string{}
		}
		return v
	case map[string]string:
		if v == nil {
			return map[string]string{}
		}
		return v
	case []TopicRule:
		if v == nil {
			return []TopicRule{}
		}
		return v
	default:
		return v
	}
}

// shortDuration drops the zero parts that time.Duration prints: 15m rather than 15m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// YAML returns the effective configuration as a file that gives the same configuration again, except for the secrets,
// which are masked. With origins, a comment names the origin of each value. Keys of the other source and the other
// preset are left out: a default that a later version changes would be a value there, and refused.
func (l *Loaded) YAML(origins bool) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{"": root}
	for _, f := range fields() {
		if !l.Config.reads(f.Key) {
			continue
		}
		parent, name := "", f.Key
		if dot := strings.LastIndexByte(f.Key, '.'); dot >= 0 {
			parent, name = f.Key[:dot], f.Key[dot+1:]
		}
		value := &yaml.Node{}
		if err := value.Encode(l.maskedValue(f)); err != nil {
			return nil, err
		}
		if value.Kind != yaml.ScalarNode {
			value.Style = yaml.FlowStyle
		}
		if origins {
			value.LineComment = l.Origins[f.Key].String()
		}
		section := sectionNode(sections, parent)
		section.Content = append(section.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return []byte(b.String()), enc.Close()
}

// sectionNode returns the mapping of a section. It creates the mapping if there is none yet.
func sectionNode(sections map[string]*yaml.Node, key string) *yaml.Node {
	if n, ok := sections[key]; ok {
		return n
	}
	parent, name := "", key
	if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
		parent, name = key[:dot], key[dot+1:]
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	above := sectionNode(sections, parent)
	above.Content = append(above.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, n)
	sections[key] = n
	return n
}
