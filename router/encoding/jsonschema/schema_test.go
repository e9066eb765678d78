package jsonschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const order = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["id"],
	"properties":{"id":{"type":"integer"},"state":{"enum":["new","paid"]},"mail":{"pattern":"^[^@]+@"},
		"lines":{"type":"array","items":{"$ref":"#/$defs/line"}},"other":{"anyOf":[{"type":"null"},{"type":"string"}]},
		"labels":{"additionalProperties":{"type":"string"}}},
	"additionalProperties":false,
	"$defs":{"line":{"type":"object","properties":{"amount":{"type":["integer","null"],"maximum":9007199254740992}}}}}`

func TestAppend(t *testing.T) {
	s, err := Compile(order, nil)
	require.NoError(t, err)
	for document, want := range map[string]string{
		`{"id": 1.0, "lines": [{"amount": 9007199254740992}]} `: "",
		`{"id":"secret"}`:           `$.id: expected integer, found string`,
		`{"state":"secret","id":1}`: `$.state: it does not meet the keyword "enum"`,
		`{}`:                        `$.id: expected a value, and there is no such member`,
		`{"id":1,"secret":1}`:       `$: it has a member that the schema does not allow`,
		`{"id":1,"mail":"secret"}`:  `$.mail: it does not meet the keyword "pattern"`,
		`{"id":1,"lines":[{},{"amount":"secret"}]}`:      `$.lines[1].amount: expected null or integer, found string`,
		`{"id":1,"lines":[{"amount":9007199254740993}]}`: `$.lines[0].amount: it does not meet the keyword "maximum"`,
		`{"id":1,"other":0}`:                             `$.other: it does not meet the keyword "anyOf"`,
		`{"id":1,"labels":{"secret":7}}`:                 `$.labels.*: expected string, found number`,
		`{"id":1} 1`:                                     `$: the text is not JSON`,
		`secret`:                                         `$: the text is not JSON`,
		`{"id":1e999999999}`:                             `$.id: the number is longer than 1000 digits`,
		`{"id":1E-0999999999}`:                           `$.id: the number is longer`,
		`{"id":` + strings.Repeat("1", 1001) + `}`:       `$.id: the number is longer`,
	} {
		got, err := s.Append([]byte("frame"), nil, []byte(document))
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, "frame"+document, string(got))
			continue
		}
		require.ErrorContains(t, err, want, document)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, "frame", string(got))
	}
}

func TestDrafts(t *testing.T) {
	for _, draft := range []string{
		"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft/2020-12/schema",
	} {
		s, err := Compile(`{"$schema":"`+draft+`","properties":{"a":{"type":"string"}}}`, nil)
		require.NoError(t, err)
		_, err = s.Append(nil, nil, []byte(`{"a":1}`))
		require.ErrorContains(t, err, "$.a: expected string", draft)
		_, err = Compile(`{"$schema":"`+draft+`","properties":{"a":{"type":"strnig"}}}`, nil)
		require.EqualError(t, err, "it is not a valid JSON Schema", draft)
	}
}

func TestReferences(t *testing.T) {
	s, err := Compile(`{"properties":{"line":{"$ref":"line.json"},"b":{"$ref":"https://example.com/b.json#/$defs/b"}}}`,
		map[string]string{
			"line.json": `{"type":"object"}`, "https://example.com/b.json": `{"$defs":{"b":{"type":"null"}}}`,
		})
	require.NoError(t, err)
	_, err = s.Append(nil, nil, []byte(`{"line":1}`))
	require.ErrorContains(t, err, "$.line: expected object")
	_, err = s.Append(nil, nil, []byte(`{"b":1}`))
	require.ErrorContains(t, err, "$.b: expected null")
	for _, elsewhere := range []string{"file:///etc/passwd", "https://example.com/x", "other.json"} {
		_, err := Compile(`{"$ref":"`+elsewhere+`"}`, nil)
		require.ErrorContains(t, err, "does not name among its references", elsewhere)
	}
}

// A few references make validation exponential in the depth of a document.
func TestHostileSchemas(t *testing.T) {
	twice := `{"properties":{"a":{"$ref":"#"}}}`
	defs := `"d0":{"type":"object"}`
	for i := 1; i < 60; i++ {
		defs += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	for _, schema := range []string{
		`{"allOf":[` + twice + `,` + twice + `]}`,
		`{"$ref":"#/$defs/d59","$defs":{` + defs + `}}`,
	} {
		s, err := Compile(schema, nil)
		require.NoError(t, err)
		_, err = s.Append(nil, nil, []byte(strings.Repeat(`{"a":`, 90)+"{}"+strings.Repeat("}", 90)))
		require.ErrorIs(t, err, errBudget)
		if strings.Contains(schema, "properties") {
			_, err = s.Append(nil, nil, []byte(`{"a":{}}`))
			require.NoError(t, err, "the next one has a budget of its own")
		}
	}
	for schema, want := range map[string]string{
		`{"maximum":1e999999999}`: "the number at /maximum is longer",
		`{`:                       "not JSON",
		`5`:                       "not a valid JSON Schema",
		`{"pattern":"("}`:         "not a valid JSON Schema",
		strings.Repeat(`{"not":`, maxDepth) + "{}" + strings.Repeat("}", maxDepth): "deeper than 100 levels",
	} {
		_, err := Compile(schema, nil)
		require.ErrorContains(t, err, want)
	}
}
