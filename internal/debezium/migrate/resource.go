package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlLine is the line that an error of the YAML parser names; the rest of the error may quote the file.
var yamlLine = regexp.MustCompile(`line \d+`)

// parseYAML reads Strimzi's KafkaConnector, among other documents too, a connector's options as YAML, Debezium Server's
// application.yaml, and its variables in a docker-compose file or a resource of Kubernetes.
func parseYAML(text []byte) (*Input, error) {
	var f yamlFile
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			where := yamlLine.FindString(err.Error())
			if where != "" {
				where = ", in " + where
			}
			return nil, errors.New("the file looks like YAML and cannot be read as YAML" + where)
		}
		if len(doc.Content) == 0 {
			continue
		}
		if in, err := f.document(doc.Content[0]); in != nil || err != nil {
			return in, err
		}
	}
	switch {
	case len(f.connectors) > 0:
		return resourceOf(f.connectors)
	case len(f.variables) > 0:
		in := serverInput(withAliases(f.variables))
		in.From = "as variables in YAML"
		return in, nil
	}
	return nil, errors.New("the file is YAML without a KafkaConnector and without Debezium Server's options: " +
		"pass the connector's resource (kubectl get kafkaconnector NAME -o yaml), its JSON or its properties")
}

// yamlFile is what the documents of a file have among others.
type yamlFile struct {
	connectors []*yaml.Node
	variables  []entry // of Debezium Server
}

// document returns the options of a document that has nothing besides, or collects what it has.
func (f *yamlFile) document(top *yaml.Node) (*Input, error) {
	switch kind := textOf(member(top, "kind")); {
	case kind == "KafkaConnector":
		f.connectors = append(f.connectors, top)
	case strings.HasSuffix(kind, "List"):
		for _, item := range items(member(top, "items")) {
			if textOf(member(item, "kind")) == "KafkaConnector" {
				f.connectors = append(f.connectors, item)
			}
		}
	case kind == "ConfigMap" && propertiesIn(top) != "":
		in, err := parseForm([]byte(propertiesIn(top)))
		if err == nil {
			in.From = "in a ConfigMap"
		}
		return in, err
	case kind == "" && member(top, "debezium") != nil:
		if line := aliased(top); line > 0 {
			return nil, fmt.Errorf("line %d has an anchor's alias: write its value there", line)
		}
		in := serverInput(flatten("", top, nil))
		in.From = "as YAML"
		return in, nil
	case kind == "" && (member(top, "connector.class") != nil || member(top, "config") != nil):
		return parseBare(top)
	default:
		found := variablesIn(top, nil)
		if member(top, "services") != nil { // docker-compose takes $$ for $
			for i := range found {
				found[i].value = strings.ReplaceAll(found[i].value, "$$", "$")
			}
		}
		f.variables = append(f.variables, found...)
	}
	return nil, nil
}

// resourceOf takes the only resource, or the only one that has an event router.
func resourceOf(connectors []*yaml.Node) (*Input, error) {
	var found []*Input
	var names []string
	for _, c := range connectors {
		in, err := parseResource(c)
		if err != nil {
			return nil, err
		}
		names = append(names, in.Name)
		if len(connectors) == 1 || in.routes() {
			found = append(found, in)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("the file has %d connectors (%s), and %d of them have an event router: pass one alone, "+
			"as kubectl get kafkaconnector NAME -o yaml prints it", len(names), strings.Join(names, ", "), len(found))
	}
	return found[0], nil
}

// parseBare reads the options, or name and config, of Connect's JSON as YAML.
func parseBare(top *yaml.Node) (*Input, error) {
	in := &Input{Form: ConnectJSON, From: "as YAML", Name: textOf(member(top, "name"))}
	if config := member(top, "config"); config != nil {
		top = config
	}
	return in, in.take(top)
}

// aliased is the line of the first alias, 0 for none.
func aliased(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		return node.Line
	}
	for _, child := range node.Content {
		if line := aliased(child); line > 0 {
			return line
		}
	}
	return 0
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
	return in, in.take(config)
}

// take adds the members of a mapping as options.
func (in *Input) take(config *yaml.Node) error {
	for i := 0; i+1 < len(config.Content); i += 2 {
		name, value := valid([]byte(config.Content[i].Value)), config.Content[i+1]
		if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
			return fmt.Errorf("option %s (line %d): the value is not a string", name, value.Line)
		}
		in.Options = append(in.Options, Option{Given: name, Name: name, Value: valid([]byte(value.Value))})
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
