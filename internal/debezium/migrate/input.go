package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/properties"
)

// Form is the kind of file that the options came from.
type Form string

const (
	ConnectJSON       Form = "connect-json"
	ConnectProperties Form = "connect-properties"
	KafkaConnector    Form = "kafka-connector" // Strimzi's resource
	DebeziumServer    Form = "debezium-server"
)

// String describes the form for people.
func (f Form) String() string {
	switch f {
	case ConnectJSON:
		return "a connector's JSON"
	case KafkaConnector:
		return "a KafkaConnector of Strimzi"
	case DebeziumServer:
		return "Debezium Server's configuration"
	}
	return "the properties of a standalone connector"
}

// Input is a connector's configuration. Options have the names that Kafka Connect gives them: the options of Debezium
// Server lose their prefixes.
type Input struct {
	Form    Form
	From    string // how the file has it, such as "as YAML"; empty: as the form says
	Name    string // of the connector, if it has one
	Options []Option
}

// Option is one setting.
type Option struct {
	Given string // the name in the file
	Name  string // the name as in Kafka Connect; for the worker's, as the connector would have it
	Value string
}

// Parse reads a connector's configuration in each form that Connect, Strimzi, ksqlDB and Debezium Server have for it. A
// file in another form, or without a connector's options, gives an error that names the form. No error quotes the file,
// which may hold a password.
func Parse(data []byte) (*Input, error) {
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(start(text)) == 0 {
		return nil, errors.New("the file has no options; a connector's JSON or properties are expected")
	}
	in, err := parseForm(text)
	if err != nil {
		return nil, err
	}
	if len(in.Options) == 0 {
		return nil, fmt.Errorf("the file is %s and has no options", in.Form)
	}
	if in.Name == "" {
		in.Name = in.value("name")
	}
	if err := in.plausible(); err != nil {
		return nil, err
	}
	in.setAside()
	return in, nil
}

// start is the text from its first character on. Lines are counted from the text's own begin.
func start(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// routes reports whether the connector has an event router.
func (in *Input) routes() bool {
	return slices.ContainsFunc(in.Options, func(o Option) bool { return strings.TrimSpace(o.Value) == eventRouter })
}

// Bounds of a connector's configuration. Options are judged together, so time grows faster than their number.
const maxOptions, maxValue = 1000, 32 << 10

// plausible refuses what was read as options and is none: an option that is given twice, of which Java takes the last
// without a word, values in quotes that are a part of them, a file of which no line is an option.
func (in *Input) plausible() error {
	if len(in.Options) > maxOptions {
		return fmt.Errorf("the file has %d options, and a connector has at most %d", len(in.Options), maxOptions)
	}
	for _, o := range in.Options {
		if len(o.Value) > maxValue {
			return fmt.Errorf("option %s: the value is longer than %d KiB", o.Given, maxValue>>10)
		}
	}
	m := &migration{in: in, out: settings{}, notes: map[string]string{}}
	seen, known := map[string]bool{}, false
	for _, o := range in.Options {
		if seen[o.Name] {
			return fmt.Errorf("option %s is given twice", o.Given)
		}
		seen[o.Name] = true
		if v := strings.TrimSpace(o.Value); in.Form == ConnectProperties && len(v) > 1 &&
			v[0] == v[len(v)-1] && (v[0] == '"' || v[0] == '\'') {
			return fmt.Errorf("option %s: the value is in quotes, which a property file takes for a part of it",
				o.Given)
		}
		known = known || m.applyRule(o).verdict != Unknown
	}
	if !known {
		return errors.New("the file has no option that a connector has")
	}
	return nil
}

func parseForm(text []byte) (*Input, error) {
	switch {
	case bytes.ContainsAny(start(text)[:1], "{["):
		return parseJSON(text)
	case bytes.IndexByte(text, 0) >= 0:
		return nil, errors.New("the file is not text in UTF-8; of UTF-16, as PowerShell writes it, " +
			"iconv -f UTF-16 -t UTF-8 makes that")
	case shellScript.Match(text):
		return parseScript(text)
	case ksqlStatement.Match(text):
		return parseKsql(text)
	case yamlDocument.Match(text):
		return parseYAML(text)
	}
	entries, err := loadProperties(text)
	if err != nil {
		return nil, err
	}
	switch {
	case slices.ContainsFunc(entries, func(e entry) bool { return strings.HasPrefix(e.name, "debezium.") }):
		return serverInput(entries), nil
	case environmentFile.Match(text):
		in := serverInput(fromEnvironment(text))
		in.From = "as environment variables"
		return in, nil
	}
	in := &Input{Form: ConnectProperties}
	for _, e := range entries {
		in.Options = append(in.Options, Option{Given: e.name, Name: e.name, Value: e.value})
	}
	return in, nil
}

// Forms that their first line, or one of their lines, shows.
var (
	shellScript  = regexp.MustCompile(`(?m)^(#!|\s*(sudo |docker exec \S+ )?(curl|https?|kubectl|kafka-connect)\s)`)
	yamlDocument = regexp.MustCompile(`(?m)^(---|connector\.class: |` +
		`(apiVersion|kind|spec|services|debezium|quarkus|config):[^=]*$)`)
	environmentFile = regexp.MustCompile(`(?m)^\s*(export\s+)?DEBEZIUM_`)
)

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

// serverInput takes Debezium Server's properties.
func serverInput(entries []entry) *Input {
	in := &Input{Form: DebeziumServer}
	for _, e := range entries {
		in.Options = append(in.Options, Option{
			Given: e.name, Name: serverName(e.name), Value: strings.ReplaceAll(e.value, "$${", "${"),
		})
	}
	return in
}

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
