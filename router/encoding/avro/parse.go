package avro

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Compile compiles the text of a schema. The texts of the schemas that it refers to come before the schemas that refer
// to them. The error holds names of the schema, and nothing longer.
func Compile(schema string, references []string) (*Schema, error) {
	p := parser{named: map[string]*node{}}
	var root *node
	for _, one := range append(references[:len(references):len(references)], schema) {
		v, err := decode(one)
		if err != nil {
			return nil, err
		}
		if root, err = p.parse(v, "", 0); err != nil {
			return nil, err
		}
	}
	for _, n := range p.records {
		if err := n.complete(); err != nil {
			return nil, err
		}
	}
	return &Schema{root: root}, nil
}

var errNotJSON = errors.New("its text is not JSON")

func decode(schema string) (any, error) {
	d := json.NewDecoder(strings.NewReader(schema))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

type parser struct {
	named   map[string]*node
	records []*node
	nodes   int
}

// parse makes the node of a type. A name without a namespace is in the enclosing namespace.
func (p *parser) parse(v any, namespace string, depth int) (*node, error) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, tooLarge("types", maxNodes)
	}
	if depth > maxDepth {
		return nil, tooLarge("levels of types", maxDepth)
	}
	switch v := v.(type) {
	case string:
		return p.byName(v, namespace)
	case []any:
		return p.union(v, namespace, depth)
	case map[string]any:
		name, ok := v["type"].(string)
		if !ok {
			return p.parse(v["type"], namespace, depth+1)
		}
		return p.complex(name, v, namespace, depth)
	}
	return nil, errors.New("a type is neither a name nor a list nor an object")
}

func (p *parser) byName(name, namespace string) (*node, error) {
	if k, ok := primitives[name]; ok {
		return &node{kind: k, branch: name, want: name}, nil
	}
	if n := p.named[fullName(name, namespace)]; n != nil {
		return n, nil
	}
	if n := p.named[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("the type %s is not defined", shown(name))
}

func fullName(name, namespace string) string {
	if strings.Contains(name, ".") || namespace == "" {
		return name
	}
	return namespace + "." + name
}

// shown is a name as errors have it.
func shown(name string) string {
	const longest = 200
	if len(name) > longest {
		name = name[:longest]
	}
	return strconv.Quote(name)
}

func (p *parser) union(list []any, namespace string, depth int) (*node, error) {
	n := &node{kind: union, null: -1, byName: map[string]int{}}
	for i, one := range list {
		b, err := p.parse(one, namespace, depth+1)
		if err != nil {
			return nil, err
		}
		if b.kind == union {
			return nil, errors.New("a union is in a union")
		}
		if _, twice := n.byName[b.branch]; twice {
			return nil, fmt.Errorf("a union has %s twice", shown(b.branch))
		}
		if n.byName[b.branch] = i; b.kind == null {
			n.null = i
		}
		n.branches = append(n.branches, b)
	}
	names := make([]string, 0, len(n.branches))
	for _, b := range n.branches[:min(len(n.branches), 10)] {
		names = append(names, b.want)
	}
	if n.want = "one of " + strings.Join(names, ", "); len(n.branches) > len(names) {
		n.want += ", …"
	}
	return n, nil
}

func (p *parser) complex(name string, v map[string]any, namespace string, depth int) (*node, error) {
	switch name {
	case "array", "map":
		n := &node{kind: array, branch: name, want: "an array"}
		inner := "items"
		if name == "map" {
			n.kind, n.want, inner = mapping, "a map", "values"
		}
		var err error
		n.items, err = p.parse(v[inner], namespace, depth+1)
		return n, err
	case "record", "error", "enum", "fixed":
		return p.define(name, v, namespace, depth)
	}
	n, err := p.byName(name, namespace)
	if err == nil && n.kind <= text {
		n.setLogical(v)
	}
	return n, err
}

// define makes a type with a name, which is known before its members are read: it may refer to itself.
func (p *parser) define(what string, v map[string]any, namespace string, depth int) (*node, error) {
	name, _ := v["name"].(string)
	if name == "" {
		return nil, fmt.Errorf("a type %s has no name", what)
	}
	if own, ok := v["namespace"].(string); ok && !strings.Contains(name, ".") {
		namespace = own
	}
	name = fullName(name, namespace)
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		namespace = name[:i]
	} else {
		namespace = ""
	}
	if p.named[name] != nil {
		return nil, fmt.Errorf("the type %s is defined twice", shown(name))
	}
	n := &node{branch: name, want: what + " " + strings.Trim(shown(name), `"`), byName: map[string]int{}}
	p.named[name] = n
	switch what {
	case "enum":
		n.kind = enum
		return n, p.symbols(n, v["symbols"])
	case "fixed":
		n.kind = fixed
		size, err := strconv.ParseUint(number(v["size"]), 10, 24)
		if err != nil {
			return nil, fmt.Errorf("the size of %s is not a number", shown(name))
		}
		n.size = int(size)
		n.setLogical(v)
		return n, nil
	}
	n.kind = record
	p.records = append(p.records, n)
	return n, p.fields(n, v["fields"], namespace, depth)
}

func (p *parser) symbols(n *node, v any) error {
	list, _ := v.([]any)
	if p.nodes += len(list); p.nodes > maxNodes {
		return tooLarge("symbols", maxNodes)
	}
	for i, one := range list {
		symbol, ok := one.(string)
		if _, twice := n.byName[symbol]; !ok || twice {
			return fmt.Errorf("a symbol of %s is not a text, or is there twice", shown(n.branch))
		}
		n.byName[symbol] = i
		n.symbols = append(n.symbols, symbol)
	}
	return nil
}

func (p *parser) fields(n *node, v any, namespace string, depth int) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("the record %s has no list of fields", shown(n.branch))
	}
	for i, one := range list {
		f, _ := one.(map[string]any)
		name, _ := f["name"].(string)
		if _, twice := n.byName[name]; name == "" || twice {
			return fmt.Errorf("a field of %s has no name, or one that is there twice", shown(n.branch))
		}
		n.byName[name] = i
		made := field{name: name}
		if def, has := f["default"]; has {
			var err error
			if made.raw, err = marshal(def); err != nil {
				return err
			}
			made.has = true
		}
		var err error
		if made.node, err = p.parse(f["type"], namespace, depth+1); err != nil {
			return err
		}
		n.fields = append(n.fields, made)
	}
	return nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errNotJSON
	}
	return b.Bytes(), nil
}

// number is the digits of a JSON number, empty for something else.
func number(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}
