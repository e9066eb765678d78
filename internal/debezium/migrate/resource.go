package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML reads Strimzi's KafkaConnector, among other documents too, and Debezium Server's application.yaml.
func parseYAML(text []byte) (*Input, error) {
	var connectors []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("the file looks like YAML and cannot be read as YAML")
		}
		if len(doc.Content) == 0 {
			continue
		}
		top := doc.Content[0]
		switch kind := textOf(member(top, "kind")); {
		case member(top, "debezium") != nil:
			in := serverInput(flatten("", top, nil))
			return in, twice(in)
		case kind == "KafkaConnector":
			connectors = append(connectors, top)
		case strings.HasSuffix(kind, "List"):
			for _, item := range items(member(top, "items")) {
				if textOf(member(item, "kind")) == "KafkaConnector" {
					connectors = append(connectors, item)
				}
			}
		}
	}
	switch len(connectors) {
	case 1:
		return parseResource(connectors[0])
	case 0:
		return nil, errors.New("the file is YAML without a KafkaConnector and without Debezium Server's options: " +
			"pass the connector's resource (kubectl get kafkaconnector NAME -o yaml), its JSON or its properties")
	}
	var names []string
	for _, c := range connectors {
		names = append(names, textOf(member(member(c, "metadata"), "name")))
	}
	return nil, fmt.Errorf("the file has %d connectors (%s): pass one alone, as kubectl get kafkaconnector NAME "+
		"-o yaml prints it", len(connectors), strings.Join(names, ", "))
}

// parseResource reads a KafkaConnector: class and tasksMax beside the options of Connect.
func parseResource(top *yaml.Node) (*Input, error) {
	spec := member(top, "spec")
	in := &Input{Form: KafkaConnector, Name: textOf(member(member(top, "metadata"), "name"))}
	for _, of := range [][2]string{{"class", "connector.class"}, {"tasksMax", "tasks.max"}} {
		if node := member(spec, of[0]); node != nil {
			in.Options = append(in.Options, Option{Given: "spec." + of[0], Name: of[1], Value: textOf(node)})
		}
	}
	config := member(spec, "config")
	if config == nil || config.Kind != yaml.MappingNode {
		return nil, errors.New("the KafkaConnector has no spec.config")
	}
	for i := 0; i+1 < len(config.Content); i += 2 {
		name, value := valid([]byte(config.Content[i].Value)), config.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("option %s: the value is not a string", name)
		}
		in.Options = append(in.Options, Option{Given: name, Name: name, Value: valid([]byte(value.Value))})
	}
	return in, twice(in)
}

// twice refuses an option that the file has twice.
func twice(in *Input) error {
	seen := map[string]bool{}
	for _, o := range in.Options {
		if seen[o.Name] {
			return fmt.Errorf("option %s is given twice", o.Name)
		}
		seen[o.Name] = true
	}
	return nil
}

// flatten names the values of nested mappings as properties do.
func flatten(prefix string, node *yaml.Node, all []entry) []entry {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if name == "~" { // Quarkus: the value of the name that has others below it
				name = ""
			}
			all = flatten(strings.Trim(prefix+"."+name, "."), node.Content[i+1], all)
		}
	case yaml.SequenceNode:
		var values []string
		for _, item := range node.Content {
			values = append(values, item.Value)
		}
		all = append(all, entry{valid([]byte(prefix)), valid([]byte(strings.Join(values, ",")))})
	case yaml.ScalarNode:
		all = append(all, entry{valid([]byte(prefix)), valid([]byte(node.Value))})
	}
	return all
}

func member(node *yaml.Node, name string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func items(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

func textOf(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	return valid([]byte(node.Value))
}
