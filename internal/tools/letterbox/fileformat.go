package letterbox

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// format is the first member of a file's first line.
const format = "cdc-outbox dead letters 1"

// header is the first line of a file.
type header struct {
	Format  string    `json:"format"`
	Topic   string    `json:"topic"`
	Written time.Time `json:"written_at"`
}

// line is a line with a record.
type line struct {
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`    // -1: of a mark that a retry from the file has appended
	Timestamp int64        `json:"timestamp"` // milliseconds
	Key       text         `json:"key"`
	Value     text         `json:"value"`
	Headers   []lineHeader `json:"headers"`
}

type lineHeader struct {
	Name  text `json:"name"`
	Value text `json:"value"`
}

// trailer is the last line of an export. After it there are only the marks of retries.
type trailer struct {
	Records int64  `json:"records"`
	Letters int64  `json:"letters"`
	SHA256  string `json:"sha256"` // of all lines before
}

// text is a JSON string if the bytes are UTF-8, otherwise {"base64": "..."}; nil is null.
type text []byte

type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	switch {
	case t == nil:
		return []byte("null"), nil
	case utf8.Valid(t):
		return json.Marshal(string(t))
	default:
		return json.Marshal(encoded{t})
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		*t = nil
		return nil
	case bytes.HasPrefix(b, []byte("{")):
		var e encoded
		err := json.Unmarshal(b, &e)
		*t = append(text{}, e.Base64...)
		return err
	default:
		var s string
		err := json.Unmarshal(b, &s)
		*t = append(text{}, s...)
		return err
	}
}

func lineOf(r *deadletter.Record) *line {
	l := &line{
		Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
		Headers: make([]lineHeader, len(r.Headers)),
	}
	for i, h := range r.Headers {
		l.Headers[i] = lineHeader{text(h.Key), h.Value}
	}
	return l
}

func (l *line) record() *deadletter.Record {
	r := &deadletter.Record{
		Partition: l.Partition, Offset: l.Offset, Timestamp: l.Timestamp, Key: l.Key, Value: l.Value,
	}
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, router.Header{Key: string(h.Name), Value: h.Value})
	}
	return r
}

// encode returns the line of a value, with its end.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
