package migrate

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// serverVariable matches the names of Debezium Server's variables.
var serverVariable = regexp.MustCompile(`^(?:DEBEZIUM|QUARKUS)_[A-Z0-9_]+$`)

// variablesIn finds Debezium Server's variables in a docker-compose file or a resource of Kubernetes: a mapping, a list
// of NAME=value, or of name and value. A value that is a secret's or a field's stays a placeholder.
func variablesIn(node *yaml.Node, all []entry) []entry {
	add := func(name, value string) {
		all = append(all, entry{strings.ToLower(strings.ReplaceAll(name, "_", ".")), valid([]byte(value))})
	}
	switch node.Kind {
	case yaml.MappingNode:
		if name := textOf(member(node, "name")); serverVariable.MatchString(name) {
			value := "${" + name + "}"
			if literal := member(node, "value"); literal != nil {
				value = textOf(literal)
			}
			add(name, value)
			return all
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, value := node.Content[i].Value, node.Content[i+1]
			if serverVariable.MatchString(name) && value.Kind == yaml.ScalarNode {
				add(name, value.Value)
				continue
			}
			all = variablesIn(value, all)
		}
	case yaml.SequenceNode, yaml.DocumentNode:
		for _, item := range node.Content {
			name, value, ok := strings.Cut(item.Value, "=")
			if ok && serverVariable.MatchString(name) {
				add(name, value)
				continue
			}
			all = variablesIn(item, all)
		}
	}
	return all
}

// propertiesIn is the text of Debezium Server's application.properties in a ConfigMap, empty for none.
func propertiesIn(top *yaml.Node) string {
	data := member(top, "data")
	if data == nil || data.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(data.Content); i += 2 {
		if text := data.Content[i+1].Value; strings.HasSuffix(data.Content[i].Value, ".properties") &&
			strings.Contains(text, "debezium.") {
			return text
		}
	}
	return ""
}
