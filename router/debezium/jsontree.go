package debezium

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonNode is a parsed JSON value. Unlike a map it keeps the order of an object's members, which becomes that of the
// fields.
type jsonNode struct {
	kind    byte // '"' string, 'b' boolean, 'i' integer, 'f' fraction, '[', '{', 'n' null
	text    string
	broken  bool // the text holds half a surrogate pair, which has no UTF-8 form
	integer int64
	big     bool // an integer that does not fit
	float   float64
	list    []*jsonNode
	names   []string       // of an object's members, beside list
	index   map[string]int // of an object's members
}

var errJSONTree = errors.New("the text is not JSON")

// parseJSON takes the last of several members with one name, at the place of the first, as Jackson does.
func parseJSON(text []byte) (*jsonNode, error) {
	if !json.Valid(text) {
		return nil, errJSONTree
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return (&treeReader{
		Decoder: d, escapes: bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`)),
	}).node(0)
}

// treeReader knows whether the text holds an escaped half of a surrogate pair, for which the decoder puts the same
// character as stands for itself.
type treeReader struct {
	*json.Decoder
	escapes bool
}

// maxJSONTree is the depth that Jackson allows.
const maxJSONTree = 1000

func (d *treeReader) node(depth int) (*jsonNode, error) {
	if depth > maxJSONTree {
		return nil, errJSONTree
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case string:
		return &jsonNode{kind: '"', text: t, broken: d.escapes && strings.ContainsRune(t, utf8.RuneError)}, nil
	case bool:
		n := &jsonNode{kind: 'b'}
		if t {
			n.integer = 1
		}
		return n, nil
	case json.Number:
		return numberNode(string(t)), nil
	case json.Delim:
		return d.nested(t, depth)
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

func (d *treeReader) nested(open json.Delim, depth int) (*jsonNode, error) {
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
		item, err := d.node(depth + 1)
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
