package router

import (
	"fmt"
	"strconv"
)

// SchemaVersion is the version of a subject's schema in a schema registry, from 1.
type SchemaVersion int32

// LatestSchema is the version that was registered last.
const LatestSchema SchemaVersion = -1

// String is the version as the registry's API has it.
func (v SchemaVersion) String() string {
	if v == LatestSchema {
		return "latest"
	}
	return strconv.Itoa(int(v))
}

// SchemaAnswer is how much is known of a schema.
type SchemaAnswer uint8

const (
	SchemaNotAsked  SchemaAnswer = iota // nothing is known: the registry has to be asked
	SchemaKnown                         // it has an id
	SchemaNoSubject                     // the registry has no such subject
	SchemaNoVersion                     // the subject has no such version
)

// Schema is a version of a subject.
type Schema struct {
	ID      int32
	Encoder Encoder // of the payloads with this id; nil: the application has encoded them
}

// Encoder gives payloads the form that their schema describes. It is safe for concurrent use, and keeps no argument.
type Encoder interface {
	// Append appends the encoded form of a JSON document. Of Protobuf, message is the list of indexes in the frame that
	// names the message; other formats have none. The error begins with the path of the member that does not fit, and
	// holds no value of the document. Nothing is appended then.
	Append(dst, message, document []byte) ([]byte, error)

	// JSON returns the document of encoded bytes, for people. Of Protobuf, the list of indexes is in front of them.
	JSON(encoded []byte) ([]byte, error)
}

// Schemas has the schemas of a registry. It is safe for concurrent use, waits for nothing, and keeps no argument.
type Schemas interface {
	// Schema returns a version of a subject, which only SchemaKnown has.
	Schema(subject []byte, version SchemaVersion) (Schema, SchemaAnswer)
}

// UnresolvedSchema is the error of Route for a row whose schema is not known yet. The row is not a bad one: ask the
// registry, and route it again.
type UnresolvedSchema struct {
	Subject string
	Version SchemaVersion
}

// Error names the schema.
func (e *UnresolvedSchema) Error() string {
	return fmt.Sprintf("the id of subject %q, version %s, is not known", e.Subject, e.Version)
}
