package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/properties"
)

// Form is the kind of file that the options came from.
type Form string

const (
	ConnectJSON       Form = "connect-json"
	ConnectProperties Form = "connect-properties"
	DebeziumServer    Form = "debezium-server"
)

// Input is a connector's configuration. Options have the names that Kafka Connect gives them: the options of Debezium
// Server lose their prefixes.
type Input struct {
	Form    Form
	Name    string // of the connector, if it has one
	Options []Option
}

// Option is one setting.
type Option struct {
	Given string // the name in the file
	Name  string // the name as in Kafka Connect; for the worker's, as the connector would have it
	Value string
}

// Parse reads a connector's JSON (with or without {"name", "config"} around it, and as Connect's REST interface
// returns it), a standalone worker's connector properties, or Debezium Server's application.properties.
func Parse(data []byte) (*Input, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff"); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(trimmed)
	}
	in := &Input{Form: ConnectProperties}
	entries, err := loadProperties(data)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("the file has no options; a connector's JSON or properties are expected")
	}
	if slices.ContainsFunc(entries, func(e entry) bool { return strings.HasPrefix(e.name, "debezium.") }) {
		in.Form = DebeziumServer
	}
	for _, e := range entries {
		o := Option{Given: e.name, Name: e.name, Value: e.value}
		if in.Form == DebeziumServer {
			o.Name, o.Value = serverName(e.name), strings.ReplaceAll(e.value, "$${", "${")
		}
		in.Options = append(in.Options, o)
	}
	in.Name = in.value("name")
	in.setAside()
	return in, nil
}

// Worker adds the defaults that a Connect worker's properties give its connectors: converters, brokers and how to reach
// them.
func (in *Input) Worker(data []byte) error {
	entries, err := loadProperties(data)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, o := range in.Options {
		have[o.Name] = true
	}
	for _, e := range entries {
		given, name := e.name, "worker."+e.name
		switch {
		case strings.HasPrefix(given, "key.converter"), strings.HasPrefix(given, "value.converter"),
			strings.HasPrefix(given, "header.converter"):
			name = given
		case strings.HasPrefix(given, "producer."):
			name = "producer.override." + strings.TrimPrefix(given, "producer.")
		case given == "bootstrap.servers":
			name = "producer.override." + given
		}
		if class, _, ok := cutConverter(name); have[name] || ok && have[class] {
			continue // the connector's own wins, a converter with all of its options
		}
		in.Options = append(in.Options, Option{Given: "worker: " + given, Name: name, Value: e.value})
	}
	return nil
}

// unused begins the names of options that Connect does not read.
const unused = "converter.unused."

// setAside renames the options of converters that the connector leaves to the worker: Connect reads the options of a
// converter only in the configuration that names its class (Plugins.newConverter).
func (in *Input) setAside() {
	for i, o := range in.Options {
		if class, option, ok := cutConverter(o.Name); ok && option != "" && !in.has(class) {
			in.Options[i].Name = unused + o.Name
		}
	}
}

// cutConverter splits the name of a converter's option, or of the converter itself.
func cutConverter(name string) (class, option string, ok bool) {
	for _, class := range []string{"key.converter", "value.converter", "header.converter"} {
		if rest, ok := strings.CutPrefix(name, class); ok && (rest == "" || rest[0] == '.') {
			return class, rest, true
		}
	}
	return "", "", false
}

func (in *Input) value(name string) string {
	for _, o := range in.Options {
		if o.Name == name {
			return strings.TrimSpace(o.Value)
		}
	}
	return ""
}

func (in *Input) has(name string) bool {
	for _, o := range in.Options {
		if o.Name == name {
			return true
		}
	}
	return false
}

type entry struct{ name, value string }

// loadProperties leaves placeholders as they are: Connect's configuration providers or MicroProfile expand them.
func loadProperties(data []byte) ([]entry, error) {
	all, err := properties.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the property file cannot be read: %w", err)
	}
	entries := make([]entry, len(all))
	for i, p := range all {
		entries[i] = entry{valid(p.Key), valid(p.Value)}
	}
	return entries, nil
}

// valid keeps a file in another encoding from breaking the YAML and JSON made from it.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }

// serverName maps Debezium Server's names; an option that is not the connector's keeps its name.
func serverName(name string) string {
	for _, p := range []struct{ server, connect string }{
		{"debezium.source.", ""},
		{"debezium.transforms", "transforms"},
		{"debezium.predicates", "predicates"},
		{"debezium.sink.kafka.producer.", "producer.override."},
	} {
		if rest, ok := strings.CutPrefix(name, p.server); ok {
			return p.connect + rest
		}
	}
	return name
}

func parseJSON(data []byte) (*Input, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("this is not a connector's JSON: %w", plainJSON(err))
	}
	in := &Input{Form: ConnectJSON}
	config := top
	if raw, ok := top["config"]; ok {
		_ = json.Unmarshal(top["name"], &in.Name)
		config = nil
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, errors.New(`"config" is not a JSON object`)
		}
	}
	if len(config) == 0 {
		return nil, errors.New("the connector's JSON has no options")
	}
	for _, name := range sortedKeys(config) {
		value, err := scalar(config[name])
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", name, err)
		}
		in.Options = append(in.Options, Option{Given: name, Name: name, Value: value})
	}
	if in.Name == "" {
		in.Name = in.value("name")
	}
	in.setAside()
	return in, nil
}

// scalar accepts the same values as Connect: strings, and numbers and booleans as their text.
func scalar(raw json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return text, nil
	}
	if bytes.ContainsAny(raw[:1], "[{") {
		return "", errors.New("the value is not a string")
	}
	return string(raw), nil
}

// plainJSON drops texts that could quote the file, which may hold a password.
func plainJSON(err error) error {
	var at *json.SyntaxError
	if errors.As(err, &at) {
		return fmt.Errorf("broken at byte %d", at.Offset)
	}
	return errors.New("not an object")
}
