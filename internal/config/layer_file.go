package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileLayer reads a YAML file.
func fileLayer(path string) (layer, Problems) {
	b, err := os.ReadFile(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, Problems{{Key: "--config", Where: path, What: "the file cannot be read: " + err.Error()}}
	}
	r := &fileReader{
		path: path, fields: fieldBy(func(f Field) string { return f.Key }), seen: map[string]bool{}, values: layer{},
	}
	r.read(b)
	return r.values, r.problems
}

// fileReader takes scalars as the text that is in the file. Decoding them first would turn a password such as 0123 or
// 1e5 into a number and so into another password.
type fileReader struct {
	path     string
	fields   map[string]Field
	seen     map[string]bool // by key: a.b can be written as "a.b" and as b in the section a
	values   layer
	problems Problems
}

// read collects values and problems. A broken file is a problem like any other, so the other layers are still read.
func (r *fileReader) read(b []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // nothing but comments
	case err != nil:
		r.add(r.path, 0, "%s", syntaxProblem(err, b))
		return
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		r.add(r.path, 0, "the file holds more than one YAML document; only the first would count")
	}
	r.section(doc.Content[0], "")
}

// section reads a mapping whose keys start with prefix.
func (r *fileReader) section(n *yaml.Node, prefix string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a section with everything commented out
	}
	if n.Kind != yaml.MappingNode {
		name := strings.TrimSuffix(prefix, ".")
		if name == "" {
			name = r.path
		}
		r.add(name, n.Line, "this is a section: write its keys below it, indented")
		return
	}
	here := map[string]bool{} // the sections of this mapping
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		switch {
		case !word.MatchString(name.Value): // not repeated: with a misplaced quote it may hold half the file
			r.add(r.path, name.Line, "this line does not start with a key")
		case here[key] || r.seen[key]:
			r.add(key, name.Line, "is set twice")
		case isSection(key):
			here[key] = true
			r.section(value, key+".")
		default:
			r.entry(key, name.Line, value)
		}
	}
}

// entry reads a key that is not a section.
func (r *fileReader) entry(key string, line int, value *yaml.Node) {
	f, known := r.fields[key]
	switch {
	case known:
		r.seen[key] = true
		if g, ok := r.value(f, value); ok {
			r.values[key] = g
		}
	case key == Undecided:
		r.undecided(value)
	case renamed[key] != "":
		r.problems = append(r.problems, renamedProblem(key, renamed[key], r.where(line)))
	default:
		candidates := names(func(f Field) string { return f.Key })
		if value.Kind == yaml.MappingNode {
			candidates = sections()
		}
		r.problems = append(r.problems, unknown(key, r.where(line), "key", candidates))
	}
}

// Undecided is the key under which migrate debezium lists the decisions that an operator has to make.
const Undecided = "undecided"

// undecided reports each decision that is left in the list. An item is a text, or a key with a text; then a variable or
// a flag for the key settles it.
func (r *fileReader) undecided(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // every line was deleted
	}
	if n.Kind != yaml.SequenceNode {
		r.add(Undecided, n.Line, "lists open decisions; make them, then delete the key")
		return
	}
	for _, item := range n.Content {
		text, key := item.Value, ""
		if item.Kind == yaml.MappingNode && len(item.Content) == 2 {
			key, text = item.Content[0].Value, item.Content[1].Value
		}
		r.add(Undecided, item.Line, "is an open decision: %s Make it, then delete the line", text)
		if f, ok := r.fields[key]; ok {
			p := &r.problems[len(r.problems)-1]
			p.about, p.What = key, p.What+fmt.Sprintf(", or set %s", f.Env)
		}
	}
}

// value reads a scalar or a sequence of scalars. An empty value leaves the default in place.
func (r *fileReader) value(f Field, n *yaml.Node) (given, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	g := given{Origin: Origin{Layer: "file", Where: r.where(n.Line)}}
	if f.structured() && n.Kind != yaml.ScalarNode {
		text, err := asJSON(n)
		if err != nil {
			r.add(f.Key, n.Line, "%s", err.Error())
		}
		g.Text = text
		return g, err == nil
	}
	switch n.Kind {
	case yaml.ScalarNode:
		g.Text = n.Value
		return g, n.Tag != "!!null"
	case yaml.SequenceNode:
		if f.Type != "list" {
			r.add(f.Key, n.Line, "takes one value, not a list")
			return g, false
		}
		g.IsList = true
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				r.add(f.Key, item.Line, "takes a list of plain values")
				return g, false
			}
			g.List = append(g.List, item.Value)
		}
		return g, true
	default:
		r.add(f.Key, n.Line, "takes a value, not a section")
		return g, false
	}
}

func (r *fileReader) where(line int) string {
	if line == 0 {
		return r.path
	}
	return fmt.Sprintf("%s:%d", r.path, line)
}

func (r *fileReader) add(key string, line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{Key: key, Where: r.where(line), What: fmt.Sprintf(format, args...)})
}

var (
	yamlLine   = regexp.MustCompile(`line (\d+)`)
	yamlQuoted = regexp.MustCompile("'[^']*'|`[^`]*`|\"[^\"]*\"")
	word       = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,80}$`)
	tabIndent  = regexp.MustCompile(`(?m)^ *\t`)
	bareAt     = regexp.MustCompile(`(?m)^[^#\n]*:\s+@`)
)

// syntaxProblem returns an error of the YAML parser without the text that it quotes from the file, because the text may
// be a secret: for "password: *hunter2" the parser reports "unknown anchor 'hunter2'".
func syntaxProblem(err error, b []byte) string {
	msg := yamlQuoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "…")
	if !yamlLine.MatchString(msg) && strings.Contains(msg, "…") {
		msg = "part of it cannot be parsed"
	}
	msg = "is not YAML: " + msg
	if bareAt.Match(b) {
		msg += `. YAML needs quotes around a value that starts with @: "@/run/secrets/dsn"`
	}
	if tabIndent.Match(b) {
		msg += ". YAML is indented with spaces, not with tabs"
	}
	return msg
}
