package router

import "slices"

// Header is one Kafka record header. A nil Value is a null header value.
type Header struct {
	Key   string
	Value []byte
}

// Record is the Kafka record of a row. It and its slices belong to the Router and to the row it was made from: they are
// valid until the next call to Route, so a caller that keeps a Record must Clone it.
type Record struct {
	Topic       string
	TopicNumber uint32  // the Router's for Topic, from 1, so that a producer finds the topic again; 0: none
	SchemaID    int32   // in the frame of a schema registry, which Value begins with; 0: no frame
	Encoder     Encoder // that made the rest of Value; nil: none did
	Partition   int32   // -1: chosen by the key (murmur2, as the Java client does)
	Key         []byte  // nil: no key
	Value       []byte  // nil: a tombstone
	Headers     []Header
	Timestamp   int64 // milliseconds since the Unix epoch

	TraceID []byte // that the envelope names, nil elsewhere
	Tag     any    // handed back by the producer with the record's acknowledgement; nil for nearly all
}

// Size is the number of bytes the record counts for in the in-flight window: key, value, headers and a fixed
// overhead for the encoding.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value) + 32
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value) + 4
	}
	return n
}

// Clone returns a record that shares no memory with the Router and the row. Any part may lie in either: a key is the
// row's own bytes or, of several columns or as JSON, made in the Router's buffer; so are envelopes, decoded bytea and
// header values, and the list of headers is always the Router's.
func (r *Record) Clone() *Record {
	c := *r
	c.Key, c.Value, c.TraceID, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.TraceID),
		slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return &c
}
