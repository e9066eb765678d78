// Package encoding compiles the schemas of a registry into encoders of JSON payloads. The packages below it have a
// format each.
package encoding

import (
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding/avro"
	"github.com/cdc-outbox/cdc-outbox/router/encoding/jsonschema"
	"github.com/cdc-outbox/cdc-outbox/router/encoding/protobuf"
)

// Source is a schema as a registry has it.
type Source struct {
	Type string `json:"type"` // AVRO, JSON, PROTOBUF
	Text string `json:"text"`
	// also the references of references, each before the schema that refers to it
	References []Reference `json:"references,omitempty"`
}

// Reference is a schema that another one refers to by its name.
type Reference struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Compile compiles a schema. The error says why it cannot be used, a clause without a full stop.
func Compile(s Source) (e router.Encoder, err error) {
	defer func() {
		if recover() != nil { // of a library: a registry may hold anything
			e, err = nil, errors.New("it cannot be compiled")
		}
	}()
	switch s.Type {
	case "AVRO":
		var texts []string
		for _, r := range s.References {
			texts = append(texts, r.Text)
		}
		return orError(avro.Compile(s.Text, texts))
	case "JSON":
		return orError(jsonschema.Compile(s.Text, s.byName()))
	case "PROTOBUF":
		return orError(protobuf.Compile(s.Text, s.byName()))
	}
	return nil, fmt.Errorf("its type %.20q is none that is known", s.Type)
}

// byName are the texts of the references.
func (s *Source) byName() map[string]string {
	texts := make(map[string]string, len(s.References))
	for _, r := range s.References {
		texts[r.Name] = r.Text
	}
	return texts
}

// orError keeps a nil pointer out of the interface.
func orError[E router.Encoder](e E, err error) (router.Encoder, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}
