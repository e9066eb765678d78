package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// register has the latest version of a subject's schema.
func (s *schemaRegistry) register(id int, kind, schema string) {
	s.set(func(s *schemaRegistry) {
		text, _ := json.Marshal(schema)
		s.ids["orders.events-value/versions/latest"] = id
		s.texts["orders.events-value/versions/latest"] = fmt.Sprintf(`{"schemaType":%q,"schema":%s,`, kind, text)
	})
}

func (s *schemaRegistry) encoding(t *testing.T, format string) []string {
	return []string{
		"CDC_OUTBOX_ROUTER_REGISTRY_URL=" + s.URL, "CDC_OUTBOX_ROUTER_REGISTRY_ENCODE=true",
		"CDC_OUTBOX_ROUTER_REGISTRY_USERNAME=relay", "CDC_OUTBOX_ROUTER_REGISTRY_PASSWORD=" + canary,
		"CDC_OUTBOX_ROUTER_REGISTRY_FORMAT=" + format, "CDC_OUTBOX_ROUTER_REGISTRY_REFRESH=1s",
		"CDC_OUTBOX_ROUTER_REGISTRY_CACHE=" + filepath.Join(t.TempDir(), "schemas.json"), "CDC_OUTBOX_HTTP_STALL=1s",
		"CDC_OUTBOX_ROUTER_BAD_ROWS_PAYLOAD_DOES_NOT_FIT=dead_letter",
	}
}

func (b *bed) insertPayload(payload string) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('orders', '1', 'created', '%s')`, payload))
}

const orderSchema = `{"type":"record","name":"Order","fields":[{"name":"no","type":"long"}%s]}`

// Payloads are encoded by the schema whose id is in the frame, also when another version is registered while the relay
// runs, and after a restart while the registry is away. One that does not fit is a letter, of which no log has a value.
func TestEncoding(t *testing.T) {
	t.Parallel()
	s := newSchemaRegistry(t)
	s.register(257, "AVRO", fmt.Sprintf(orderSchema, ""))
	b := newBed(t, testkit.Postgres(t), "orders.events", "cdc-outbox.dead-letter")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.env = append(b.env, s.encoding(t, "avro")...)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.insertPayload(`{"no": 9007199254740993}`)
	const first = "\x00\x00\x00\x01\x01\x82\x80\x80\x80\x80\x80\x80\x20"
	require.Equal(t, []string{first}, b.values("orders.events", 1))
	p := invoke(t, b.env, "preview")
	require.Equal(t, 0, p.code, p.all())
	require.Contains(t, p.stdout, `decoded     {"no":9007199254740993}`)
	require.Contains(t, p.stdout, "13 bytes that are not a text")
	require.Contains(t, invoke(t, b.env, "check").stdout, "orders.events-value, version latest: id 257.")

	b.insertPayload(`{"no": "` + canary + `"}`)
	require.Len(t, b.values("cdc-outbox.dead-letter", 1), 1)
	c := invoke(t, b.env, "check")
	require.Contains(t, c.stdout, "$.no: expected long, found a value that is not a whole number", c.all())
	p = invoke(t, b.env, "preview")
	require.Contains(t, p.stdout, "$.no: expected long", p.all())

	s.register(258, "AVRO", fmt.Sprintf(orderSchema, `,{"name":"state","type":"string","default":"new"}`))
	published := int64(1)
	for last := first; last == first; {
		b.insertPayload(`{"no": 9007199254740993}`)
		published++
		all := b.values("orders.events", published)
		if last = all[len(all)-1]; last != first {
			require.Equal(t, "\x00\x00\x00\x01\x02\x82\x80\x80\x80\x80\x80\x80\x20\x06new", last)
		}
	}
	s.register(259, "AVRO", `{"type":"record","name":"Order"}`) // it cannot be compiled: 258 stays in use
	asked := func() (n int) {
		s.set(func(s *schemaRegistry) { n = s.asked["orders.events-value/versions/latest"] })
		return n
	}
	for before := asked(); asked() < before+2; {
		b.insertPayload(`{"no": 1}`)
		published++
		all := b.values("orders.events", published)
		require.Equal(t, "\x00\x00\x00\x01\x02\x02\x06new", all[len(all)-1])
	}
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
	require.NotContains(t, r.text(), canary)
	require.Contains(t, r.text(), "payload_does_not_fit")
	require.Contains(t, r.text(), "cannot be used: the record")
	require.Contains(t, r.text(), "has no list of fields")

	s.set(func(s *schemaRegistry) { s.away = true })
	r = start(t, b.env)
	b.insertPayload(`{"no": 2}`)
	published++
	all := b.values("orders.events", published)
	require.Equal(t, "\x00\x00\x00\x01\x02\x04\x06new", all[len(all)-1], "a restart while the registry is away")
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
}

// A schema that cannot be used keeps its rows waiting, with the next step for the operator.
func TestPollingWithEncoding(t *testing.T) {
	t.Parallel()
	s := newSchemaRegistry(t)
	s.register(257, "AVRO", fmt.Sprintf(orderSchema, ""))
	b := newPollingBed(t, "orders.events", "cdc-outbox.dead-letter")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.env = append(b.env, s.encoding(t, "json")...)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.insertPayload(`{"no": 1}`)
	r.awaitAnswer("/readyz", `its type is "AVRO", and router.registry.format asks for JSON`)
	r.awaitAnswer("/status", `"registry_refuses"`)
	s.register(258, "JSON", `{"properties":{"no":{"type":"integer"}}}`)
	require.Equal(t, []string{"\x00\x00\x00\x01\x02" + `{"no": 1}`}, b.values("orders.events", 1))
	b.insertPayload(`{"no": "` + canary + `"}`)
	letter := b.values("cdc-outbox.dead-letter", 1)
	require.Len(t, letter, 1)
	retry := invoke(t, b.env, "dead-letter", "retry", "--all")
	require.Contains(t, strings.ReplaceAll(retry.all(), "\n", " "), "$.no: expected integer, found string")
	s.register(259, "JSON", `{"properties":{"no":{}}}`)
	retry = invoke(t, b.env, "dead-letter", "retry", "--all")
	require.Equal(t, 0, retry.code, retry.all())
	require.Equal(t, "\x00\x00\x00\x01\x03"+`{"no": "`+canary+`"}`, b.values("orders.events", 2)[1])
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
	require.NotContains(t, r.text(), canary)
}
