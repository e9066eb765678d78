package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// jsonNode is a parsed JSON value. Unlike a map it keeps the order of an object's members, which becomes that of the
// fields.
type jsonNode struct {
	kind    byte // '"' string, 'b' boolean, 'i' integer, 'f' fraction, '[', '{', 'n' null
	text    string
	integer int64
	big     bool // an integer that doesn't fit
	float   float64
	list    []*jsonNode
	names   []string       // of an object's members, beside list
	index   map[string]int // of an object's members
}

var errJSONTree = errors.New("the text isn't JSON")

// parseJSON takes the last of several members with one name, at the place of the first, as Jackson does.
func parseJSON(text []byte) (*jsonNode, error) {
	if !json.Valid(text) {
		return nil, errJSONTree
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return readNode(d, 0)
}

// maxJSONTree is the depth that Jackson allows.
const maxJSONTree = 1000

func readNode(d *json.Decoder, depth int) (*jsonNode, error) {
	if depth > maxJSONTree {
		return nil, errJSONTree
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case string:
		return &jsonNode{kind: '"', text: t}, nil
	case bool:
		n := &jsonNode{kind: 'b'}
		if t {
			n.integer = 1
		}
		return n, nil
	case json.Number:
		return numberNode(string(t)), nil
	case json.Delim:
		return readNested(d, t, depth)
	}
	return &jsonNode{kind: 'n'}, nil
}

func numberNode(s string) *jsonNode {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range: infinity
		return &jsonNode{kind: 'f', float: f}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return &jsonNode{kind: 'i', integer: n, big: err != nil}
}

func readNested(d *json.Decoder, open json.Delim, depth int) (*jsonNode, error) {
	n := &jsonNode{kind: byte(open)}
	if open == '{' {
		n.index = make(map[string]int)
	}
	for d.More() {
		at := len(n.list)
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := token.(string) // as the text is valid
			if have, again := n.index[name]; again {
				at = have
			} else {
				n.index[name] = at
				n.names = append(n.names, name)
			}
		}
		item, err := readNode(d, depth+1)
		if err != nil {
			return nil, err
		}
		if at < len(n.list) {
			n.list[at] = item
		} else {
			n.list = append(n.list, item)
		}
	}
	_, err := d.Token()
	return n, err
}
