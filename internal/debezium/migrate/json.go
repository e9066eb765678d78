package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

type object = map[string]json.RawMessage

// parseJSON reads a connector's JSON, with or without {"name", "config"} around it, the answers of Connect's REST
// interface, and Strimzi's resource as kubectl prints it.
func parseJSON(data []byte) (*Input, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	if start(data)[0] == '[' {
		return parseList(data)
	}
	var top object
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, errors.New("this is not a connector's JSON")
	}
	if _, ok := top["kind"]; ok {
		return parseYAML(data) // JSON is YAML, too
	}
	if len(top) == 0 {
		return nil, errors.New("the connector's JSON has no options")
	}
	if expanded := expandedConnectors(top); expanded != nil {
		return oneOf(expanded)
	}
	switch {
	case top["error_code"] != nil && top["message"] != nil:
		return nil, errors.New("the file is an error that Kafka Connect has answered: see whether a connector has " +
			"the name that was asked for")
	case top["config"] == nil && hasStatus(top):
		return nil, errors.New("the file has the status of connectors, and not their options: pass what " +
			"curl http://CONNECT:8083/connectors?expand=info prints")
	}
	return parseConnector(top)
}

// parseConnector reads the options, or {"name", "config"}.
func parseConnector(top object) (*Input, error) {
	in := &Input{Form: ConnectJSON}
	config := top
	raw, ok := top["config"]
	name := top["name"]
	if !ok {
		raw, ok = top["connectorConfiguration"] // MSK Connect
		name = top["connectorName"]
	}
	if ok {
		_ = json.Unmarshal(name, &in.Name)
		for beside := range top {
			if strings.Contains(beside, ".") {
				return nil, fmt.Errorf("option %s is beside \"config\", where Connect does not read it", beside)
			}
		}
		config = nil
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, errors.New(`"config" is not a JSON object`)
		}
	}
	for _, name := range sortedKeys(config) {
		value, err := scalar(config[name])
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", name, err)
		}
		in.Options = append(in.Options, Option{Given: name, Name: name, Value: value})
	}
	if len(in.Options) == 0 {
		return nil, errors.New("the connector's JSON has no options")
	}
	return in, nil
}

// expandedConnectors reads the answer of GET /connectors?expand=info, nil if it is something else.
func expandedConnectors(top object) map[string]object {
	all := map[string]object{}
	for name, raw := range top {
		var of struct{ Info object }
		if json.Unmarshal(raw, &of) != nil || of.Info["config"] == nil {
			return nil
		}
		all[name] = of.Info
	}
	return all
}

// hasStatus reports whether this is the answer of GET /connectors/NAME/status or of GET /connectors?expand=status.
func hasStatus(top object) bool {
	if top["connector"] != nil && top["tasks"] != nil {
		return true
	}
	for _, raw := range top {
		var of struct{ Status object }
		if json.Unmarshal(raw, &of) == nil && of.Status["connector"] != nil {
			return true
		}
	}
	return false
}

func parseList(data []byte) (*Input, error) {
	var names []string
	if json.Unmarshal(data, &names) == nil {
		return nil, errors.New("the file is a list of connectors' names: pass what " +
			"curl http://CONNECT:8083/connectors/NAME prints for one of them")
	}
	var list []object
	if json.Unmarshal(data, &list) != nil {
		return nil, errors.New("the file is a list, but not of connectors")
	}
	all := map[string]object{}
	for i, o := range list {
		name := fmt.Sprintf("number %d", i+1)
		if o["name"] != nil {
			_ = json.Unmarshal(o["name"], &name)
		}
		all[name] = o
	}
	return oneOf(all)
}

// oneOf takes the only connector, or the only one that has an event router.
func oneOf(all map[string]object) (*Input, error) {
	var found []*Input
	names := sortedKeys(all)
	for _, name := range names {
		in, err := parseConnector(all[name])
		if err != nil {
			return nil, fmt.Errorf("connector %s: %w", name, err)
		}
		if len(all) == 1 || in.routes() {
			found = append(found, in)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("the file has %d connectors (%s), and %d of them have an event router: pass one "+
			"connector alone, as curl http://CONNECT:8083/connectors/NAME prints it",
			len(all), strings.Join(names, ", "), len(found))
	}
	return found[0], nil
}

// scalar accepts the same values as Connect: strings, and numbers and booleans as their text.
func scalar(raw json.RawMessage) (string, error) {
	var text string
	if bytes.ContainsAny(raw[:1], "[{n") { // an array, an object, null
		return "", errors.New("the value is not a string")
	}
	if err := json.Unmarshal(raw, &text); err == nil {
		return text, nil
	}
	return string(raw), nil
}

// checkJSON refuses broken JSON, and a key that an object has twice: Connect takes the last one, without a word.
func checkJSON(data []byte) error {
	if !json.Valid(data) {
		at := int64(len(data))
		var broken *json.SyntaxError
		if errors.As(json.Unmarshal(data, new(any)), &broken) {
			at = broken.Offset
		}
		before := data[:min(int(at), len(data))]
		return fmt.Errorf("the JSON is broken in line %d, column %d", 1+bytes.Count(before, []byte("\n")),
			len(before)-bytes.LastIndexByte(before, '\n')-1)
	}
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // the next token is a key
	}
	levels := []level{{}}
	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := decoder.Token()
		if err != nil { // the end: the JSON is valid
			return nil //nolint:nilerr // io.EOF
		}
		top := &levels[len(levels)-1]
		if name, ok := token.(string); ok && top.key {
			if top.keys[name] {
				return fmt.Errorf("option %s is given twice, the second time in line %d", name,
					1+bytes.Count(data[:decoder.InputOffset()], []byte("\n")))
			}
			top.keys[name], top.key = true, false
			continue
		}
		top.key = top.keys != nil
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{map[string]bool{}, true})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
	}
}
