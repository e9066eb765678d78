package nats

import (
	"bytes"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// message is a record on its way.
type message struct {
	msg    *client.Msg
	id     string // the header Nats-Msg-Id: the event's id, unless the stream has another message of that id
	ticket uint64
	size   int64 // Record.Size
	length int   // of headers and payload, with the headers that send adds
	tag    any

	answered bool // since it was sent last
	stored   bool // the answer says so
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
	position := positionText(pos)
	h := client.Header{headerRelay: {owner}, headerPosition: {position}}
	h[headerTime] = []string{time.UnixMilli(rec.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	if rec.Key != nil {
		h[headerKey] = []string{string(rec.Key)}
	}
	if rec.Value == nil {
		h[headerTombstone] = []string{"true"}
	}
	m := &message{size: int64(rec.Size()), tag: rec.Tag}
	for i := range rec.Headers {
		one := &rec.Headers[i]
		if belongsToServer(one.Key) {
			return nil, refused(rec.Topic, fmt.Sprintf("the header %q would be an instruction to the server", one.Key))
		}
		if one.Value != nil {
			h[one.Key] = append(h[one.Key], string(one.Value))
		}
		if one.Key == "id" && len(one.Value) <= longestID {
			m.id = string(one.Value)
		}
	}
	if m.id == "" {
		m.id = position
	}
	length := len("NATS/1.0\r\n") + len("\r\n")
	for name, values := range h {
		for _, value := range values {
			if !fitsHeader(name, value) {
				return nil, refused(rec.Topic, fmt.Sprintf("the header %q, or its value, is not a text of one line "+
					"without blanks at its ends", name))
			}
			length += len(name) + len(": \r\n") + len(value)
		}
	}
	m.length = length + forSending + len(rec.Value)
	if err := l.fits(rec.Topic, m.length, length+forSending); err != nil {
		return nil, err
	}
	m.msg = &client.Msg{Subject: rec.Topic, Header: h, Data: bytes.Clone(rec.Value)}
	return m, nil
}

func refused(topic, sentence string) error {
	return &sink.RefusedError{
		Topic: topic, Reason: sink.InvalidRecord, Sentence: sentence,
		Remedy: fault.Do("Change what writes the rows, or give such rows a policy with router.bad_rows.unconvertible."),
	}
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

// belongsToServer reports whether the server or the relay acts on headers of this name. One of them, from a row, could
// purge the stream (Nats-Rollup).
func belongsToServer(name string) bool {
	for _, prefix := range []string{"Nats-", reserved} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// fitsHeader reports whether the client library writes the header as it is: it leaves out illegal names, trims blanks
// and replaces line breaks without a word.
func fitsHeader(name, value string) bool {
	if name == "" || strings.ContainsAny(value, "\r\n\x00") || textproto.TrimString(value) != value {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}
