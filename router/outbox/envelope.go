package outbox

import (
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// Envelope configures FormatEnvelope. The columns may be absent from the table.
type Envelope struct {
	VersionColumn string
	Version       string // if a row has none
	TraceIDColumn string
}

// envelope puts the payload into a JSON object: as it is if the column holds JSON by its type, bytea as base64,
// anything else as a string. The members are always there, in this order; without a value they are null.
func (r *Router) envelope(l *rowPlan, row pgoutput.Tuple, e *event) ([]byte, *router.RowError) {
	if e.payload == nil {
		return nil, nil
	}
	version, err := l.Optional(row, l.version)
	if err != nil {
		return nil, err
	}
	aggregateType, err := l.Text(row, l.aggregateType)
	if err != nil {
		return nil, err
	}
	aggregateID, err := l.Text(row, l.aggregateID)
	if err != nil {
		return nil, err
	}
	trace, err := l.Optional(row, l.traceID)
	if err != nil {
		return nil, err
	}
	if trace == nil {
		trace = traceID(e.headers)
	}
	e.trace = trace
	start := len(r.buf)
	b := connect.AppendQuoted(append(r.buf, `{"eventId":`...), e.id)
	b = appendMember(b, "eventType", e.kind)
	b = append(b, `,"eventVersion":`...)
	if version == nil {
		b = appendVersion(b, r.cfg.Envelope.Version)
	} else {
		b = appendVersion(b, string(version))
	}
	b = appendMember(b, "aggregateType", aggregateType)
	b = appendMember(b, "aggregateId", aggregateID)
	b = append(b, `,"occurredAt":"`...)
	b = append(appendInstant(b, e.timestamp), '"')
	b = appendMember(b, "traceId", trace)
	b = append(b, `,"data":`...)
	switch {
	case isJSON(l.payload):
		b = append(b, e.payload...)
	case l.payload.Oid == layout.OIDBytea:
		b = appendBase64(b, e.payload)
	default:
		b = connect.AppendQuoted(b, e.payload)
	}
	r.buf = append(b, '}')
	return r.buf[start:len(r.buf):len(r.buf)], nil
}

// appendVersion writes a whole number as one, anything else as a string.
func appendVersion(dst []byte, version string) []byte {
	number := version != "" && len(version) <= 15 && (version[0] != '0' || version == "0")
	for i := range len(version) {
		number = number && layout.IsDigit(version[i])
	}
	switch {
	case version == "":
		return append(dst, "null"...)
	case number:
		return append(dst, version...)
	}
	return connect.AppendQuoted(dst, version)
}

// traceID takes the trace id out of a header traceparent (W3C Trace Context, 00-<trace id>-<parent id>-<flags>).
func traceID(headers []router.Header) []byte {
	for i := range headers {
		if v := headers[i].Value; headers[i].Key == "traceparent" && len(v) >= 36 && v[2] == '-' && v[35] == '-' &&
			isHex(v[3:35]) {
			return v[3:35]
		}
	}
	return nil
}

func isHex(s []byte) bool {
	for _, c := range s {
		if !layout.IsDigit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}
