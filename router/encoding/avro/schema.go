package avro

import (
	"fmt"
	"sync"
)

// Bounds of a schema: a registry may hold anything.
const (
	maxDepth    = 100     // of a schema's text, and of a document
	maxNodes    = 100_000 // types, fields and symbols of a schema
	maxDefault  = 1 << 20 // bytes of an encoded default
	maxEncoded  = 64 << 20
	maxDecimals = 1000 // digits of a decimal
)

type kind uint8

const (
	null kind = iota
	boolean
	integer
	long
	float
	double
	octets
	text
	record
	enum
	array
	mapping
	union
	fixed
)

var primitives = map[string]kind{
	"null": null, "boolean": boolean, "int": integer, "long": long, "float": float, "double": double, "bytes": octets,
	"string": text,
}

type logical uint8

const (
	plain logical = iota
	decimal
	uuid
	date
	timeOfDay
	instant
	local // a time without a zone
)

// node is a type of a schema.
type node struct {
	kind    kind
	logical logical
	branch  string // its name in a union, as Avro's JSON has it
	want    string // for people

	fields  []field
	byName  map[string]int // of fields, symbols or branches
	symbols []string

	items    *node   // of an array, the values of a map
	branches []*node // of a union
	null     int     // the branch null, -1: there is none

	size      int // of a fixed
	precision int
	scale     int
	unit      int64 // nanoseconds of one, for times
}

type field struct {
	name  string
	node  *node
	has   bool // a default
	raw   []byte
	value []byte // raw, encoded
	state uint8  // of value
}

// Schema encodes documents. It is safe for concurrent use.
type Schema struct {
	root *node
	pool sync.Pool
}

// Append appends the encoded form of a JSON document. Its error names the member that does not fit, and no value. The
// first argument is for other formats.
func (s *Schema) Append(dst, _, document []byte) ([]byte, error) {
	w, ok := s.pool.Get().(*writer)
	if !ok {
		w = &writer{}
		w.Loose = true
	}
	out, err := w.document(dst, s.root, document)
	s.pool.Put(w)
	return out, err
}

// tooLarge is the error for a schema beyond the bounds.
func tooLarge(what string, bound int) error {
	return fmt.Errorf("it has more than %d %s", bound, what)
}
