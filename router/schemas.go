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

// Schemas has the ids of schemas. It is safe for concurrent use, waits for nothing, and keeps no argument.
type Schemas interface {
	// ID returns the id of a version of a subject, which only SchemaKnown has.
	ID(subject []byte, version SchemaVersion) (id int32, answer SchemaAnswer)
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
