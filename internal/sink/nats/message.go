package nats

import (
	"bytes"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"golang.org/x/net/http/httpguts"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// message is a record in transit.
type message struct {
	msg    *client.Msg
	id     string // the header Nats-Msg-Id: the event's id, unless the stream has another message of that id
	ticket uint64
	size   int64 // Record.Size
	length int   // of headers and payload, with the headers that send adds
	tag    any

	answered bool // since it was sent last
	stored   bool // the answer says so

	expected [4]string // values of the headers that send sets: in the message, so that they cost no allocations
}

// Bounds of one message. The server keeps the length of the headers in 16 bits, and takes the headers of the
// publication as part of them.
const (
	headerLimit = 1<<16 - 1
	longestID   = 256
	forSending  = 1536 // bytes of the headers that send adds, at most
)

// newMessage copies the record. An error is a *sink.RefusedError.
func (l limits) newMessage(rec *router.Record, owner string, pos sink.Position) (*message, error) {
	if why := illegalSubject(rec.Topic); why != "" {
		return nil, &sink.RefusedError{Topic: rec.Topic, Reason: sink.IllegalTopic, Why: why}
	}
	h, m := headers{client.Header{}}, &message{size: int64(rec.Size()), tag: rec.Tag}
	h.add(headerRelay, owner)
	h.add(headerPosition, positionText(pos))
	h.add(headerTime, time.UnixMilli(rec.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	if rec.Key != nil {
		h.add(headerKey, string(rec.Key))
	}
	if rec.Value == nil {
		h.add(headerTombstone, "true")
	}
	for i := range rec.Headers {
		one := &rec.Headers[i]
		why := illegalName(one.Key)
		if one.Key == "Status" && len(rec.Value) == 0 {
			why = "makes a message without a payload the server's, for clients"
		}
		if why != "" {
			return nil, &sink.RefusedError{
				Topic: rec.Topic, Reason: sink.InvalidRecord, Sentence: fmt.Sprintf("the header %q %s", one.Key, why),
				Remedy: fault.Do("Have later rows name the header otherwise."),
			}
		}
		if one.Value != nil {
			h.add(one.Key, string(one.Value))
		}
	}
	if m.id = h.Get("id"); m.id == "" || len(m.id) > longestID {
		m.id = h.Get(headerPosition)
	}
	length := h.length()
	m.length = length + forSending + len(rec.Value)
	if err := l.fits(rec.Topic, m.length, length+forSending); err != nil {
		return nil, err
	}
	m.msg = &client.Msg{Subject: rec.Topic, Header: h.Header, Data: bytes.Clone(rec.Value)}
	return m, nil
}

// limits are the largest sizes that server and stream take, in bytes; zero: not known, or none.
type limits struct {
	payload int64 // max_payload of the server
	message int64 // max_msg_size of the stream
}

// exceeded names the limit that a message of this length exceeds; empty: none.
func (l limits) exceeded(length int) string {
	switch {
	case l.payload > 0 && int64(length) > l.payload:
		return maxPayload
	case l.message > 0 && int64(length) > l.message:
		return maxMessage
	}
	return ""
}

const (
	maxPayload = "max_payload of the server"
	maxMessage = "max_msg_size of the stream"
	maxHeaders = "of the headers of any message"
)

// fits returns an error for a message that is too long.
func (l limits) fits(topic string, length, headers int) error {
	too := &sink.RefusedError{Topic: topic, Reason: sink.TooLarge, Bytes: length, Setting: l.exceeded(length)}
	switch {
	case headers > headerLimit:
		too.Bytes, too.Limit, too.Setting = headers, headerLimit, maxHeaders
		too.Remedy = fault.Do("No setting changes this limit: have the rows carry shorter headers.")
	case too.Setting == maxPayload:
		too.Limit = int(l.payload)
		too.Remedy = fault.Do("Raise max_payload in the configuration of each server, and reload it.")
	case too.Setting == maxMessage:
		too.Limit = int(l.message)
		too.Remedy = fault.Do("Raise the largest size of a message of the stream (nats stream edit --max-msg-size).")
	default:
		return nil
	}
	return too
}

// illegalSubject says why nothing can be published to the subject; empty: something can.
func illegalSubject(s string) string {
	switch {
	case s == "" || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, ".."):
		return "a subject has no empty part"
	case strings.HasPrefix(s, "$") || strings.HasPrefix(s, "_INBOX."):
		return "the server keeps such subjects for itself"
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }):
		return "a subject has no blanks, wildcards or control characters"
	}
	return ""
}

// illegalName says why a header cannot have the name; empty: it can. The server acts on headers of its own, and one of
// them from a row could purge the stream (Nats-Rollup). The client library leaves illegal names out without a word.
func illegalName(name string) string {
	const server = "Nats-"
	if len(name) >= len(server) && strings.EqualFold(name[:len(server)], server) {
		return "would be an instruction to the server"
	}
	switch {
	case isOwn(name):
		return "is the connector's own"
	case name == "":
		return "has no name"
	case !httpguts.ValidHeaderFieldName(name):
		return "has a character that NATS does not allow in a name"
	}
	return ""
}

// isOwn reports whether the relay writes the header, in addition to the row's own.
func isOwn(name string) bool {
	return slices.ContainsFunc([]string{
		headerKey, headerTime, headerTombstone, headerEscaped, headerRelay, headerPosition,
	}, func(own string) bool { return strings.EqualFold(name, own) })
}

// headers are a message's.
type headers struct{ client.Header }

// add adds a value. One that is not a line of text without blanks at its ends would be changed in transit: the values
// of its name are escaped, and the name is listed.
func (h headers) add(name, value string) {
	escaped := h.Header[headerEscaped] != nil && slices.Contains(strings.Split(h.Get(headerEscaped), ","), name)
	if !escaped && (strings.ContainsAny(value, "\r\n\x00") || textproto.TrimString(value) != value) {
		for i, earlier := range h.Header[name] {
			h.Header[name][i] = escape(earlier)
		}
		h.Header[headerEscaped] = []string{strings.TrimPrefix(h.Get(headerEscaped)+","+name, ",")}
		escaped = true
	}
	if escaped {
		value = escape(value)
	}
	h.Header[name] = append(h.Header[name], value)
}

// escape writes %, blanks and control characters as % and two hexadecimal digits, as in a URL.
func escape(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c == '%' || c == 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// length is the number of bytes of the encoded headers.
func (h headers) length() int {
	n := len("NATS/1.0\r\n") + len("\r\n")
	for name, values := range h.Header {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}
