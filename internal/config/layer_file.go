package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// loadFile puts a YAML file over what k holds.
func loadFile(k *koanf.Koanf, path string) Problems {
	parser := &yamlParser{path: path, fields: fieldBy(func(f Field) string { return f.Key }), seen: map[string]bool{}}
	if err := k.Load(file.Provider(path), parser); err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		parser.problems = append(parser.problems, Problem{Key: "--config", Where: path, What: "the file cannot be read: " + err.Error()})
	}
	return parser.problems
}

// yamlParser is a koanf.Parser that takes scalars as the text that stands in the file. Decoding them first would turn a
// password such as 0123 or 1e5 into a number and so into another password.
type yamlParser struct {
	path     string
	fields   map[string]Field
	seen     map[string]bool // a.b can stand as "a.b" and as b in the section a
	problems Problems
}

// Unmarshal implements koanf.Parser. Problems are collected rather than returned, so that the other layers are still read.
func (p *yamlParser) Unmarshal(b []byte) (map[string]any, error) {
	out := map[string]any{}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return out, nil // nothing but comments
	case err != nil:
		p.add(p.path, 0, "%s", p.syntax(err, b))
		return out, nil
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		p.add(p.path, 0, "the file holds more than one YAML document; only the first would count")
	}
	p.section(doc.Content[0], "", out)
	return out, nil
}

// Marshal implements koanf.Parser; nothing is written back.
func (p *yamlParser) Marshal(map[string]any) ([]byte, error) { return nil, errors.ErrUnsupported }

// section reads a mapping. Keys come out nested, as koanf wants them.
func (p *yamlParser) section(n *yaml.Node, prefix string, out map[string]any) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a section with everything commented out
	}
	if n.Kind != yaml.MappingNode {
		name := strings.TrimSuffix(prefix, ".")
		if name == "" {
			name = p.path
		}
		p.add(name, n.Line, "this is a section: write its keys below it, indented")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if !word.MatchString(name.Value) { // not repeated: with a quote out of place it may hold half the file
			p.add(p.path, name.Line, "what stands here is not a key")
			continue
		}
		if _, twice := out[name.Value]; twice {
			p.add(key, name.Line, "is there twice")
			continue
		}
		f, known := p.fields[key]
		switch {
		case key == Undecided:
			p.undecided(value)
		case known && p.seen[key]:
			p.add(key, name.Line, "is there twice")
		case known:
			p.seen[key] = true
			if g, ok := p.value(f, value); ok {
				out[name.Value] = g
			}
		case isSection(key):
			sub := map[string]any{}
			out[name.Value] = sub
			p.section(value, key+".", sub)
		default:
			candidates := names(func(f Field) string { return f.Key })
			if value.Kind == yaml.MappingNode {
				candidates = sections()
			}
			p.problems = append(p.problems, unknown(key, p.where(name.Line), "key", candidates))
		}
	}
}

// Undecided is the key under which migrate debezium lists what a person has to settle.
const Undecided = "undecided"

// undecided refuses the file for each thing that is left in the list.
func (p *yamlParser) undecided(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // every line was deleted
	}
	if n.Kind != yaml.SequenceNode {
		p.add(Undecided, n.Line, "is a list of what is left to decide; settle that, then delete the key")
		return
	}
	for _, item := range n.Content {
		p.add(Undecided, item.Line, "is left to decide: %s Settle it, then delete the line", item.Value)
	}
}

// value reads a scalar or a sequence of scalars. An empty value leaves the default in place.
func (p *yamlParser) value(f Field, n *yaml.Node) (given, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	g := given{Origin: Origin{Layer: "file", Where: p.where(n.Line)}}
	if f.structured() && n.Kind != yaml.ScalarNode {
		text, err := asJSON(n)
		if err != nil {
			p.add(f.Key, n.Line, "%s", err.Error())
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
			p.add(f.Key, n.Line, "takes one value, not a list")
			return g, false
		}
		g.IsList = true
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				p.add(f.Key, item.Line, "takes a list of plain values")
				return g, false
			}
			g.List = append(g.List, item.Value)
		}
		return g, true
	default:
		p.add(f.Key, n.Line, "takes a value, not a section")
		return g, false
	}
}

func (p *yamlParser) where(line int) string {
	if line == 0 {
		return p.path
	}
	return fmt.Sprintf("%s:%d", p.path, line)
}

func (p *yamlParser) add(key string, line int, format string, args ...any) {
	p.problems = append(p.problems, Problem{Key: key, Where: p.where(line), What: fmt.Sprintf(format, args...)})
}

var (
	yamlLine   = regexp.MustCompile(`line (\d+)`)
	yamlQuoted = regexp.MustCompile("'[^']*'|`[^`]*`|\"[^\"]*\"")
	word       = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,80}$`)
	tabIndent  = regexp.MustCompile(`(?m)^ *\t`)
	bareAt     = regexp.MustCompile(`(?m)^[^#\n]*:\s+@`)
)

// syntax words an error of the YAML reader. What it quotes from the file is cut out, because it may be a secret: of
// "password: *hunter2" it says "unknown anchor 'hunter2'".
func (p *yamlParser) syntax(err error, b []byte) string {
	msg := yamlQuoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "…")
	if !yamlLine.MatchString(msg) && strings.Contains(msg, "…") {
		msg = "something in it cannot be understood"
	}
	msg = "is not YAML: " + msg
	if bareAt.Match(b) {
		msg += `. YAML wants quotes around a value that starts with @: "@/run/secrets/dsn"`
	}
	if tabIndent.Match(b) {
		msg += ". YAML is indented with blanks, not with tabs"
	}
	return msg
}
