package jsonschema

import (
	"errors"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// misfit is the error for the first of the causes. The library's own text repeats values, and is not used.
func (s *Schema) misfit(v any, e *jsonschema.ValidationError) error {
	for len(e.Causes) > 0 && !isChoice(e.ErrorKind) {
		e = e.Causes[0]
	}
	at := s.shown(v, e.InstanceLocation)
	why := "it does not meet the schema"
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		why = "expected " + strings.Join(k.Want, " or ") + ", found " + k.Got
	case *kind.Required:
		if len(k.Missing) > 0 {
			at, why = at+s.step(k.Missing[0]), "expected a value, and there is no such member"
		}
	case *kind.AdditionalProperties:
		why = "it has a member that the schema does not allow"
	case *kind.FalseSchema:
		why = "the schema allows no value"
	case *kind.Not:
		why = `it does not meet the keyword "not"`
	default:
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			why = "it does not meet the keyword " + strconv.Quote(path[0])
		}
	}
	return errors.New(at + ": " + why)
}

// isChoice reports whether the causes of an error are alternatives, of which no single cause is the error.
func isChoice(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains:
		return true
	}
	return false
}

// shown is the path of a member.
func (s *Schema) shown(v any, path []string) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, name := range path {
		switch at := v.(type) {
		case []any:
			b.WriteString("[" + name + "]")
			v = nil
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(at) {
				v = at[i]
			}
		case map[string]any:
			b.WriteString(s.step(name))
			v = at[name]
		default:
			return b.String()
		}
	}
	return b.String()
}

// step is a member in a path. A name that the schema does not have may be a value, and is left out.
func (s *Schema) step(name string) string {
	if name == "" || len(name) > 64 || strings.ContainsAny(name, "\"\\.[]") || !strings.Contains(s.text, `"`+name+`"`) {
		return ".*"
	}
	return "." + name
}
