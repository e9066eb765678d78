package protobuf

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/cdc-outbox/cdc-outbox/router/encoding/internal/path"
	"github.com/cdc-outbox/cdc-outbox/router/internal/jsonobject"
)

// position is the place of an error, which protojson has only in its text. The rest of the text repeats values.
var position = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// misfit is the error for a document that protojson refuses: the path of the member there, and its type.
func misfit(d protoreflect.MessageDescriptor, document []byte, err error) error {
	found := position.FindStringSubmatch(err.Error())
	if found == nil {
		return errors.New("$: the text is not JSON, or does not fit the message " + string(d.FullName()))
	}
	line, _ := strconv.Atoi(found[1])
	column, _ := strconv.Atoi(found[2])
	l := locator{offset: offset(document, line, column), why: "expected the message " + string(d.FullName()), path: "$"}
	l.Begin(document)
	l.object(d)
	return errors.New(l.path + ": " + l.why)
}

// offset is the place of a column of a line, both from 1. Columns are characters.
func offset(document []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(document[at:], '\n')
		if i < 0 {
			return len(document)
		}
		at += i + 1
	}
	for ; column > 1 && at < len(document); column-- {
		_, size := utf8.DecodeRune(document[at:])
		at += size
	}
	return at
}

// locator walks to the member at an offset.
type locator struct {
	jsonobject.Object

	offset int
	path   string
	why    string
}

// object walks through the members of a message; nil: through something that has no fields of the schema.
func (l *locator) object(d protoreflect.MessageDescriptor) {
	if !l.Skip('{') {
		return
	}
	for l.Peek() == '"' && l.Pos <= l.offset {
		name, err := l.Text()
		if err != nil {
			return
		}
		field := lookup(d, string(name))
		atName := l.offset < l.Pos
		if !l.Skip(':') {
			return
		}
		switch {
		case atName && field == nil:
			l.path += path.Step(string(name))
			l.why = "the message " + string(d.FullName()) + " has no such field"
			return
		case atName:
			l.path += "." + string(name)
			l.why = "it is there twice, or beside another field of its oneof"
			return
		case l.within():
			if field != nil {
				l.path += "." + string(name)
				l.value(field, field.IsList(), field.IsMap())
			}
			return
		}
		if !l.Skip(',') {
			return
		}
	}
}

// within passes over the value at the cursor, unless the offset is in it.
func (l *locator) within() bool {
	start := l.Pos
	if l.Value(0) != nil || l.offset < l.Pos {
		l.Pos = start
		return true
	}
	return false
}

// value walks into the value of a field.
func (l *locator) value(f protoreflect.FieldDescriptor, list, keyed bool) {
	l.why = "expected " + typeOf(f, list, keyed)
	switch {
	case keyed:
		l.keyed(f)
	case list && l.Skip('['):
		for i := 0; l.Pos <= l.offset; i++ {
			if l.within() {
				l.path += "[" + strconv.Itoa(i) + "]"
				l.value(f, false, false)
				return
			}
			if !l.Skip(',') {
				return
			}
		}
	case !list && f.Message() != nil && f.Message().ParentFile().Package() != "google.protobuf":
		l.object(f.Message())
	}
}

// keyed walks through a map, whose keys are values.
func (l *locator) keyed(f protoreflect.FieldDescriptor) {
	if !l.Skip('{') {
		return
	}
	for l.Peek() == '"' && l.Pos <= l.offset {
		if _, err := l.Text(); err != nil {
			return
		}
		atKey := l.offset < l.Pos
		if !l.Skip(':') {
			return
		}
		if atKey {
			l.path += ".*"
			l.why = "expected a key that is " + typeOf(f.MapKey(), false, false) + ", once"
			return
		}
		if l.within() {
			l.path += ".*"
			l.value(f.MapValue(), false, false)
			return
		}
		if !l.Skip(',') {
			return
		}
	}
}

func lookup(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByTextName(name)
}

func typeOf(f protoreflect.FieldDescriptor, list, keyed bool) string {
	what := f.Kind().String()
	switch {
	case keyed:
		return "a map"
	case list:
		return "an array"
	case f.Message() != nil:
		what += " " + string(f.Message().FullName())
	case f.Enum() != nil:
		what += " " + string(f.Enum().FullName())
	}
	return what
}
