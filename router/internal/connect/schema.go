package connect

import (
	"slices"
	"strconv"
)

// Type is a type of Connect's schemas, by the name it has in JSON.
type Type string

const (
	Boolean Type = "boolean"
	Int16   Type = "int16"
	Int32   Type = "int32"
	Int64   Type = "int64"
	Float32 Type = "float"
	Float64 Type = "double"
	String  Type = "string"
	Bytes   Type = "bytes"
	Array   Type = "array"
	Map     Type = "map"
	Struct  Type = "struct"
)

// Schema describes a value. It is not changed once it is in use.
type Schema struct {
	Type       Type
	Optional   bool
	Name       string // of a logical type or of a struct
	Version    int    // 0: none
	HasVersion bool   // with 0 a version all the same
	Doc        string
	Parameters []Parameter
	Fields     []Field // of a struct
	Keys       *Schema // of a map
	Items      *Schema // of an array; values of a map
}

// Parameter is one of a schema's parameters.
type Parameter struct{ Name, Value string }

// Field is a field of a struct.
type Field struct {
	Name   string
	Schema *Schema
}

// AsOptional returns the schema with the given optionality, copied if it differs.
func (s *Schema) AsOptional(optional bool) *Schema {
	if s.Optional == optional {
		return s
	}
	c := *s
	c.Optional = optional
	return &c
}

// Equal reports whether two schemas are the same to the last field, as ConnectSchema.equals does. Either may be nil.
func (s *Schema) Equal(o *Schema) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	same := func(a, b Field) bool { return a.Name == b.Name && a.Schema.Equal(b.Schema) }
	return s.Type == o.Type && s.Optional == o.Optional && s.Name == o.Name && s.Doc == o.Doc &&
		s.Version == o.Version && s.HasVersion == o.HasVersion && slices.Equal(s.Parameters, o.Parameters) &&
		slices.EqualFunc(s.Fields, o.Fields, same) &&
		s.Keys.Equal(o.Keys) && s.Items.Equal(o.Items)
}

// AppendJSON writes the schema as JsonConverter does; its order is that of asJsonSchema.
func (s *Schema) AppendJSON(dst []byte) []byte { return append(s.appendMembers(dst), '}') }

func (s *Schema) appendMembers(dst []byte) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, s.Type...)
	dst = append(dst, '"')
	switch s.Type {
	case Array:
		dst = s.Items.AppendJSON(append(dst, `,"items":`...))
	case Map:
		dst = s.Keys.AppendJSON(append(dst, `,"keys":`...))
		dst = s.Items.AppendJSON(append(dst, `,"values":`...))
	case Struct:
		dst = append(dst, `,"fields":[`...)
		for i, f := range s.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(f.Schema.appendMembers(dst), `,"field":`...)
			dst = append(AppendQuoted(dst, f.Name), '}')
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"optional":`...)
	dst = strconv.AppendBool(dst, s.Optional)
	if s.Name != "" {
		dst = AppendQuoted(append(dst, `,"name":`...), s.Name)
	}
	if s.Version != 0 || s.HasVersion {
		dst = strconv.AppendInt(append(dst, `,"version":`...), int64(s.Version), 10)
	}
	if s.Doc != "" {
		dst = AppendQuoted(append(dst, `,"doc":`...), s.Doc)
	}
	if len(s.Parameters) > 0 {
		dst = append(dst, `,"parameters":{`...)
		for i, p := range s.Parameters {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendQuoted(dst, p.Name), ':')
			dst = AppendQuoted(dst, p.Value)
		}
		dst = append(dst, '}')
	}
	return dst
}
