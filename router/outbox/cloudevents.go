package outbox

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// CloudEvents configures the two formats of CloudEvents 1.0, as its Kafka protocol binding defines them. The attributes
// id and type are the event's id and type, subject is the aggregate id, time the record's timestamp.
type CloudEvents struct {
	Source          string   // a URI reference
	DataContentType string   // a media type
	DataSchema      string   // a URI; empty: none
	Extensions      []string // columns, as column or column:name
}

const (
	cePrefix          = "ce_"
	headerContentType = "content-type"
	structuredType    = "application/cloudevents+json; charset=UTF-8"
)

// ceNames are the attributes that the specification defines, and the other members that a JSON event may hold.
var ceNames = map[string]bool{
	"specversion": true, "id": true, "source": true, "type": true, "subject": true, "time": true,
	"datacontenttype": true, "dataschema": true, "data": true, "data_base64": true,
}

func (r *Router) setCloudEvents() error {
	c := &r.cfg.CloudEvents
	var errs []error
	if u, err := url.Parse(c.Source); c.Source == "" || err != nil || u.String() == "" {
		errs = append(errs, configError("cloudevents.source", "Write one such as /shop/orders.",
			errors.New("is not a URI reference, and every event needs one")))
	}
	if u, err := url.Parse(c.DataSchema); err != nil || c.DataSchema != "" && !u.IsAbs() {
		errs = append(errs, configError("cloudevents.data_schema", "", errors.New("is not a URI")))
	}
	seen := map[string]bool{}
	for _, entry := range c.Extensions {
		n, err := parseNamed(entry)
		if err == nil && (ceNames[n.name] || seen[n.name] || len(n.name) > 20 ||
			strings.Trim(n.name, "abcdefghijklmnopqrstuvwxyz0123456789") != "") {
			err = fmt.Errorf("%q cannot name an extension: it is taken, or has more than 20 characters, or others "+
				"than a-z and 0-9", n.name)
		}
		seen[n.name] = true
		errs = append(errs, configError("cloudevents.extensions",
			"Write entries such as tenant or partition_key:partitionkey.", err))
		r.extensions = append(r.extensions, n)
	}
	return errors.Join(errs...)
}

// jsonData reports whether the content type is JSON (RFC 6839 for the suffix).
func (c *CloudEvents) jsonData() bool {
	media, _, _ := strings.Cut(c.DataContentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}

// required refuses events without a value for an attribute that must not be empty.
func (e *event) required(l *rowPlan, row pgoutput.Tuple) *router.RowError {
	for _, a := range []struct {
		value []byte
		f     *layout.Field
	}{{e.id, &l.ID}, {e.kind, &l.eventType}} {
		if len(a.value) == 0 {
			return l.Refuse(row, router.BadValue, a.f.Name, "the value is NULL or empty, and a CloudEvent needs one",
				"Declare the column NOT NULL with a CHECK that it is not empty, so that no more such rows come.")
		}
	}
	return nil
}

// binaryHeaders adds the attributes as headers; the payload stays the value.
func (r *Router) binaryHeaders(l *rowPlan, row pgoutput.Tuple, e *event) *router.RowError {
	if err := e.required(l, row); err != nil {
		return err
	}
	c := &r.cfg.CloudEvents
	subject, err := l.Text(row, l.aggregateID)
	if err != nil {
		return err
	}
	start := len(r.buf)
	r.buf = appendInstant(r.buf, e.timestamp)
	h := append(e.headers,
		router.Header{Key: "ce_specversion", Value: []byte("1.0")}, router.Header{Key: "ce_id", Value: e.id},
		router.Header{Key: "ce_source", Value: []byte(c.Source)}, router.Header{Key: "ce_type", Value: e.kind})
	if len(subject) > 0 {
		h = append(h, router.Header{Key: "ce_subject", Value: subject})
	}
	h = append(h, router.Header{Key: "ce_time", Value: r.buf[start:len(r.buf):len(r.buf)]})
	if c.DataSchema != "" {
		h = append(h, router.Header{Key: "ce_dataschema", Value: []byte(c.DataSchema)})
	}
	for i := range l.attribute {
		value, err := l.Text(row, l.attribute[i].Field)
		if err != nil {
			return err
		}
		if value != nil {
			h = append(h, router.Header{Key: cePrefix + l.attribute[i].name, Value: value})
		}
	}
	if c.DataContentType != "" {
		h = append(h, router.Header{Key: headerContentType, Value: []byte(c.DataContentType)})
	}
	e.headers, r.headers.list = h, h
	return nil
}

// structured makes the JSON event format.
func (r *Router) structured(l *rowPlan, row pgoutput.Tuple, e *event) ([]byte, *router.RowError) {
	if err := e.required(l, row); err != nil {
		return nil, err
	}
	if e.payload == nil {
		return nil, nil
	}
	e.headers = append(e.headers, router.Header{Key: headerContentType, Value: []byte(structuredType)})
	r.headers.list = e.headers
	c := &r.cfg.CloudEvents
	subject, err := l.Text(row, l.aggregateID)
	if err != nil {
		return nil, err
	}
	start := len(r.buf)
	b := connect.AppendQuoted(append(r.buf, `{"specversion":"1.0","id":`...), e.id)
	b = appendMember(b, "source", []byte(c.Source))
	b = appendMember(b, "type", e.kind)
	if len(subject) > 0 {
		b = appendMember(b, "subject", subject)
	}
	b = append(b, `,"time":"`...)
	b = append(appendInstant(b, e.timestamp), '"')
	if c.DataContentType != "" {
		b = appendMember(b, "datacontenttype", []byte(c.DataContentType))
	}
	if c.DataSchema != "" {
		b = appendMember(b, "dataschema", []byte(c.DataSchema))
	}
	for i := range l.attribute {
		value, err := l.Text(row, l.attribute[i].Field)
		if err != nil {
			return nil, err
		}
		if value != nil {
			b = appendMember(b, l.attribute[i].name, value)
		}
	}
	switch {
	case l.payload.Oid == layout.OIDBytea:
		b = appendBase64(append(b, `,"data_base64":`...), e.payload)
	case c.jsonData():
		if err := l.checkJSON(row, e.payload); err != nil {
			return nil, err
		}
		b = append(append(b, `,"data":`...), e.payload...)
	default:
		b = appendMember(b, "data", e.payload)
	}
	r.buf = append(b, '}')
	return r.buf[start:len(r.buf):len(r.buf)], nil
}
