package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TopicRule overrides Topics for the topics that match its pattern. A zero value overrides nothing.
type TopicRule struct {
	Pattern           string            `json:"pattern" yaml:"pattern"`
	Partitions        int               `json:"partitions,omitempty" yaml:"partitions,omitempty"`
	ReplicationFactor int               `json:"replication_factor,omitempty" yaml:"replication_factor,omitempty"`
	Config            map[string]string `json:"config,omitempty" yaml:"config,omitempty"`
}

// For returns how a topic of this name is created: the first rule that matches it, completed from Topics.
func (t *Topics) For(topic string) TopicRule {
	out := TopicRule{Partitions: t.Partitions, ReplicationFactor: t.ReplicationFactor, Config: maps.Clone(t.Config)}
	for _, r := range t.Rules {
		if fits, err := path.Match(r.Pattern, topic); err != nil || !fits { // a topic's name has no slash to stop at
			continue
		}
		out.Pattern = r.Pattern
		if r.Partitions > 0 {
			out.Partitions = r.Partitions
		}
		if r.ReplicationFactor > 0 {
			out.ReplicationFactor = r.ReplicationFactor
		}
		if out.Config == nil {
			out.Config = map[string]string{}
		}
		maps.Copy(out.Config, r.Config)
		break
	}
	return out
}

const (
	typeMapping = "mapping"
	typeRules   = "rules"
)

// structured reports whether the value is more than a text or a list of texts. Such a value is passed on as JSON.
func (f Field) structured() bool { return f.Type == typeMapping || f.Type == typeRules }

// asJSON turns a value of the file into JSON. Scalars keep their text.
func asJSON(n *yaml.Node) (string, error) {
	v, err := plainValue(n, 0)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func plainValue(n *yaml.Node, depth int) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	const deepest = 4 // rules, rule, config; an anchor may hold itself
	switch {
	case depth > deepest:
		return nil, errors.New("goes too deep")
	case n.Kind == yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if _, twice := out[name]; twice {
				return nil, fmt.Errorf("has a key twice in line %d", n.Content[i].Line)
			}
			v, err := plainValue(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			out[name] = v
		}
		return out, nil
	case n.Kind == yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := plainValue(item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	default:
		return n.Value, nil
	}
}

// decodeJSON sets a mapping or rules.
func (l *loader) decodeJSON(f Field, text string, v reflect.Value) {
	if text == "" {
		return
	}
	switch f.Type {
	case typeMapping:
		var m settings
		if err := strictJSON(text, &m); err != nil {
			l.fail(f.Key, "a mapping such as "+f.Example, "%s", err.Error())
		}
		if len(m) > 0 {
			v.Set(reflect.ValueOf(map[string]string(m)))
		}
	case typeRules:
		var given []givenRule
		if err := strictJSON(text, &given); err != nil {
			l.fail(f.Key, `a list such as [{"pattern": "orders.*", "partitions": 24}]`, "%s", err.Error())
		}
		var rules []TopicRule
		for _, g := range given {
			rules = append(rules, TopicRule{g.Pattern, int(g.Partitions), int(g.ReplicationFactor), g.Config})
		}
		v.Set(reflect.ValueOf(rules))
	}
}

// strictJSON refuses unknown keys, and anything after the value.
func strictJSON(text string, into any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var wrong *json.UnmarshalTypeError
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			known := []string{"pattern", "partitions", "replication_factor", "config"}
			return fmt.Errorf("has the unknown key %s; known are %s", name, strings.Join(known, ", "))
		}
		if errors.As(err, &wrong) {
			return errors.New("does not have the right form")
		}
		if errors.Is(err, errScalar) {
			return errScalar
		}
		return fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has something after the value")
	}
	return nil
}

// givenRule is a rule as it was written.
type givenRule struct {
	Pattern           string   `json:"pattern"`
	Partitions        number   `json:"partitions"`
	ReplicationFactor number   `json:"replication_factor"`
	Config            settings `json:"config"`
}

// number takes 12 and "12": the file's scalars are texts.
type number int

func (n *number) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(bytes.Trim(b, `"`), (*int)(n))
}

// settings takes numbers and true and false for the texts that Kafka wants.
type settings map[string]string

var errScalar = errors.New("takes a text, a number, true or false for each name")

func (s *settings) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*s = settings{}
	for name, value := range raw {
		var text string
		switch value[0] {
		case '{', '[', 'n':
			return errScalar
		case '"':
			if err := json.Unmarshal(value, &text); err != nil {
				return err
			}
		default:
			text = string(value)
		}
		(*s)[name] = text
	}
	return nil
}

// topics makes the checks that need no broker. Only the brokers know which settings there are and which values they
// take.
func (l *loader) topics(t *Topics) {
	l.shape("kafka.topics.partitions", t.Partitions, math.MaxInt32)
	l.shape("kafka.topics.replication_factor", t.ReplicationFactor, math.MaxInt16)
	l.settingNames("kafka.topics.config", t.Config)
	const key = "kafka.topics.rules"
	for i, r := range t.Rules {
		if _, err := path.Match(r.Pattern, ""); err != nil || r.Pattern == "" {
			l.fail(key, "text with *, ? and [a-z]", "rule %d has no usable pattern", i+1)
		}
		if tooMany := r.Partitions > math.MaxInt32 || r.ReplicationFactor > math.MaxInt16; tooMany ||
			r.Partitions < 0 || r.ReplicationFactor < 0 {
			l.fail(key, "numbers from 1", "rule %d has partitions or a replication_factor out of range", i+1)
		}
		l.settingNames(key, r.Config)
	}
}

func (l *loader) shape(key string, n, most int) {
	l.atLeast(key, int64(n), 1, "a number from 1")
	if n > most {
		l.fail(key, fmt.Sprintf("a number up to %d", most), "is too large")
	}
}

func (l *loader) settingNames(key string, config map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !word.MatchString(name) || strings.TrimSpace(config[name]) == "" {
			l.fail(key, "", "the setting %q has no name or no value", name)
		}
	}
}
