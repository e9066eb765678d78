package router

// Header is one Kafka record header. A nil Value is a null header value.
type Header struct {
	Key   string
	Value []byte
}

// Record is what a row becomes. Its slices belong to the Router and to the row it was made from: they are valid
// until the next call to Route, so whoever keeps a Record must copy it.
type Record struct {
	Topic     string
	Partition int32  // -1: chosen by the key (murmur2, as the Java client does)
	Key       []byte // nil: no key
	Value     []byte // nil: a tombstone
	Headers   []Header
	Timestamp int64 // milliseconds since the Unix epoch
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
