package forward

import (
	"encoding/base64"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// Names of headers that every request may have.
const (
	idempotencyKey = "Idempotency-Key"
	contentType    = "Content-Type"
	jsonType       = "application/json"
	cloudEvent     = "ce_" // prefix of the record headers of a CloudEvent in binary mode
)

// traced are the record headers that are passed on by their own names (W3C Trace Context).
var traced = []string{"traceparent", "tracestate", "baggage"}

// set writes the headers of the request. A value that no header can hold is percent-encoded, a key that
// is not text goes as base64 under another name.
func (o *Options) set(h http.Header, m *consumer.Message) {
	about := func(name, value string) {
		if value != "" {
			h.Set(o.Prefix+name, encoded(value))
		}
	}
	about("Id", m.ID)
	about("Type", m.Type)
	about("Topic", m.Topic)
	about("Partition", strconv.Itoa(m.Partition))
	about("Offset", strconv.FormatInt(m.Offset, 10))
	about("Attempt", strconv.Itoa(m.Attempt))
	about("Timestamp", m.Time.UTC().Format(time.RFC3339Nano))
	switch {
	case m.Key == nil:
	case utf8.Valid(m.Key):
		h.Set(o.Prefix+"Key", encoded(string(m.Key)))
	default:
		h.Set(o.Prefix+"Key-Base64", base64.StdEncoding.EncodeToString(m.Key))
	}
	if m.Value == nil {
		h.Set(o.Prefix+"Null", "true")
	}
	h.Set(contentType, o.ContentType)
	for _, r := range m.Headers {
		o.pass(h, r)
	}
	if !o.AtMostOnce {
		h.Set(idempotencyKey, encoded(m.ID))
	}
}

// pass takes over a header of the record: its content type, traces, attributes of a CloudEvent in the HTTP binding, and
// the names in Options.Pass.
func (o *Options) pass(h http.Header, r consumer.Header) {
	name, known := r.Key, false
	switch lower := strings.ToLower(r.Key); {
	case lower == "content-type", lower == "contenttype":
		name, known = contentType, true
	case strings.HasPrefix(r.Key, cloudEvent):
		name, known = "ce-"+r.Key[len(cloudEvent):], true
	default:
		for _, t := range traced {
			known = known || lower == t
		}
		for _, p := range o.Pass {
			known = known || strings.EqualFold(p, r.Key)
		}
	}
	if known && r.Value != nil && httpguts.ValidHeaderFieldName(name) {
		h.Set(name, encoded(string(r.Value)))
	}
}

// encoded is a value as a header holds it: printable ASCII as it is, everything else percent-encoded as a whole.
func encoded(value string) string {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' || value[i] == ' ' && (i == 0 || i == len(value)-1) {
			return url.PathEscape(value)
		}
	}
	return value
}

// Header is one that every request gets.
type Header struct {
	Name  string
	Value func() (string, error) // asked for each request, so that a file may change
}

// reserved reports whether a header may not be set by the caller.
func (o *Options) reserved(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case idempotencyKey, "X-Idempotency-Key", "Content-Length", "Transfer-Encoding", "Connection", "Host":
		return true
	}
	return strings.HasPrefix(name, textproto.CanonicalMIMEHeaderKey(o.Prefix))
}
