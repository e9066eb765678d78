// Package protobuf encodes JSON documents as messages of a .proto file, in Protobuf's own JSON form.
package protobuf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	// maxDepth bounds messages in messages.
	maxDepth = 100
	// maxMessages bounds the messages of a schema that are found by their indexes once and for all.
	maxMessages = 1000
	file        = "schema.proto"
)

// Schema encodes documents as one of its messages. It is safe for concurrent use.
type Schema struct {
	file  protoreflect.FileDescriptor
	types linker.Resolver // that a google.protobuf.Any may have

	mu       sync.RWMutex
	messages map[string]protoreflect.MessageType // by indexes
}

// Compile compiles the text of a file, whose imports are known by their names, or are Protobuf's own.
func Compile(schema string, imports map[string]string) (*Schema, error) {
	texts := map[string]string{file: schema}
	for name, text := range imports {
		if name == file {
			return nil, fmt.Errorf("an import has the name %s", file)
		}
		texts[name] = text
	}
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(texts),
		}),
		MaxParallelism: 1,
		Reporter:       reporter.NewReporter(func(e reporter.ErrorWithPos) error { return e }, nil),
	}
	files, err := c.Compile(context.Background(), file)
	if err != nil {
		var at reporter.ErrorWithPos
		where := ""
		if errors.As(err, &at) {
			where = fmt.Sprintf(" (line %d)", at.GetPosition().Line)
		}
		return nil, errors.New("it is not a valid Protobuf schema, or imports what is not among its references" + where)
	}
	return &Schema{
		file: files[0], types: linker.ResolverFromFile(files[0]), messages: map[string]protoreflect.MessageType{},
	}, nil
}

// Append appends a document as the message of these indexes. Its error names the member that does not fit, and no
// value.
func (s *Schema) Append(dst, message, document []byte) (out []byte, err error) {
	defer func() {
		if recover() != nil { // of the library: one document must not end the process
			out, err = dst, errors.New("$: it cannot be encoded as a message of the schema")
		}
	}()
	t, err := s.message(message)
	if err != nil {
		return dst, err
	}
	m := t.New().Interface()
	err = protojson.UnmarshalOptions{Resolver: s.types, RecursionLimit: maxDepth}.Unmarshal(document, m)
	if err != nil {
		return dst, misfit(t.Descriptor(), document, err)
	}
	out, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, errors.New("$: it has a string that is not UTF-8")
	}
	return out, nil
}

// JSON returns the document of a message that follows its indexes.
func (s *Schema) JSON(encoded []byte) ([]byte, error) {
	_, size, err := indexes(encoded)
	if err != nil {
		return nil, err
	}
	t, err := s.message(encoded[:size])
	if err != nil {
		return nil, err
	}
	m := t.New().Interface()
	err = proto.UnmarshalOptions{Resolver: s.types, RecursionLimit: maxDepth}.Unmarshal(encoded[size:], m)
	if err != nil {
		return nil, errors.New("the bytes are not a message of the schema")
	}
	return protojson.MarshalOptions{Resolver: s.types}.Marshal(m)
}

// message finds the message that a list of indexes names.
func (s *Schema) message(list []byte) (protoreflect.MessageType, error) {
	s.mu.RLock()
	t := s.messages[string(list)]
	s.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	path, _, err := indexes(list)
	if err != nil {
		return nil, err
	}
	in := s.file.Messages()
	var d protoreflect.MessageDescriptor
	for _, i := range path {
		if i < 0 || i >= int64(in.Len()) {
			return nil, errors.New("$: the schema has no message with these indexes (router.registry.message_indexes)")
		}
		d = in.Get(int(i))
		in = d.Messages()
	}
	t = dynamicpb.NewMessageType(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.messages) < maxMessages {
		s.messages[string(list)] = t
	}
	return t, nil
}

var errIndexes = errors.New("$: the message is not named")

// indexes reads the list of indexes of a frame, of which a single zero is the first message, and its length in bytes.
func indexes(b []byte) (path []int64, size int, err error) {
	count, size := binary.Varint(b)
	const most = 32
	if size <= 0 || count < 0 || count > most {
		return nil, 0, errIndexes
	}
	if count == 0 {
		return []int64{0}, size, nil
	}
	for range count {
		i, n := binary.Varint(b[size:])
		if n <= 0 {
			return nil, 0, errIndexes
		}
		path = append(path, i)
		size += n
	}
	return path, size, nil
}
