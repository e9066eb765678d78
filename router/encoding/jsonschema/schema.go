// Package jsonschema checks JSON documents by a JSON Schema (drafts 4 to 2020-12). A document that fits is written as
// it is.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxDepth bounds the levels of a schema's text: the library takes the square of them to compile it.
const maxDepth = 100

// address is where the schema is for its own references. It is never loaded from anywhere.
const address = "schema:///"

// Schema checks documents. It is safe for concurrent use.
type Schema struct {
	text   string
	schema *jsonschema.Schema

	mu    sync.Mutex // of budget, which validations share
	steps *budget
}

// Compile compiles the text of a schema, whose references are known by their names. It loads nothing else: no file, no
// address.
func Compile(schema string, references map[string]string) (*Schema, error) {
	s := &Schema{text: schema, steps: &budget{}}
	// With a vocabulary of its own the library compares a schema of draft 2019-09 with less of its metaschema.
	if _, err := compile(schema, references, nil); err != nil {
		return nil, err
	}
	var err error
	s.schema, err = compile(schema, references, s.steps)
	return s, err
}

func compile(schema string, references map[string]string, steps *budget) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if steps != nil {
		c.RegisterVocabulary(steps.vocabulary())
		c.AssertVocabs()
	}
	for name, text := range references {
		if err := add(c, name, text); err != nil {
			return nil, err
		}
	}
	if err := add(c, address, schema); err != nil {
		return nil, err
	}
	s, err := c.Compile(address)
	if err != nil {
		var unknown *jsonschema.LoadURLError
		if errors.As(err, &unknown) {
			return nil, errors.New("it refers to a schema that the registry does not name among its references")
		}
		return nil, errors.New("it is not a valid JSON Schema")
	}
	return s, nil
}

func add(c *jsonschema.Compiler, name, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return errors.New("its text is not JSON")
	}
	if deeper(v, maxDepth) {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if at, why := numbers(v); why != "" {
		return errors.New("the number at " + at + " is " + why)
	}
	base := name
	if name != address {
		base = address + strings.TrimPrefix(name, "/")
		if strings.Contains(name, ":") {
			base = name
		}
	}
	if c.AddResource(base, v) != nil {
		return fmt.Errorf("the name %.200q of a reference is not one", name)
	}
	return nil
}

type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// Append appends the document, if it fits. Its error names the member that does not, and no value. The first argument
// is for other formats.
func (s *Schema) Append(dst, _, document []byte) ([]byte, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return dst, errors.New("$: the text is not JSON, or is nested too deep")
	}
	if at, why := numbers(v); why != "" {
		return dst, errors.New(s.shown(v, strings.Split(at, "/")[1:]) + ": the number is " + why)
	}
	if err := s.validate(v, len(document)); err != nil {
		return dst, err
	}
	return append(dst, document...), nil
}

// validate judges a document.
func (s *Schema) validate(v any, size int) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps.left = 100_000 + 20*size
	defer func() {
		switch r := recover(); r {
		case nil:
		case errBudget:
			err = errBudget
		default: // of the library: one document must not end the process
			err = errors.New("$: it cannot be compared with the schema")
		}
	}()
	var wrong *jsonschema.ValidationError
	if errors.As(s.schema.Validate(v), &wrong) {
		return s.misfit(v, wrong)
	}
	return nil
}

// JSON returns what Append has written.
func (*Schema) JSON(encoded []byte) ([]byte, error) { return encoded, nil }

// deeper reports whether a value has more levels.
func deeper(v any, levels int) bool {
	var inner iter.Seq[any]
	switch v := v.(type) {
	case []any:
		inner = slices.Values(v)
	case map[string]any:
		inner = maps.Values(v)
	default:
		return false
	}
	if levels == 0 {
		return true
	}
	for one := range inner {
		if deeper(one, levels-1) {
			return true
		}
	}
	return false
}

// numbers finds a number whose exact value would take more room than its text suggests.
func numbers(v any) (at, why string) {
	const longest, largest = 1000, 1000
	switch v := v.(type) {
	case json.Number:
		text := v.String()
		i := strings.IndexAny(text, "eE")
		if i < 0 {
			i = len(text)
		}
		exponent := strings.TrimLeft(strings.TrimPrefix(text[i:], "E"), "e+-0")
		if i > longest || len(exponent) > 3 {
			return "", fmt.Sprintf("longer than %d digits, or its exponent beyond %d", longest, largest)
		}
	case []any:
		for i, one := range v {
			if at, why := numbers(one); why != "" {
				return fmt.Sprintf("/%d%s", i, at), why
			}
		}
	case map[string]any:
		for name, one := range v {
			if at, why := numbers(one); why != "" {
				return "/" + strings.ReplaceAll(name, "/", " ") + at, why
			}
		}
	}
	return "", ""
}
