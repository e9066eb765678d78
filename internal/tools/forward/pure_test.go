package forward

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

func TestJudge(t *testing.T) {
	for status, want := range map[int]verdict{
		200: done, 201: done, 202: done, 204: done, 299: done,
		301: wait, 302: wait, 307: wait, 308: wait, 304: wait,
		400: refused, 406: refused, 410: refused, 413: refused, 415: refused, 422: refused, 451: refused,
		401: wait, 402: wait, 403: wait, 404: wait, 405: wait, 407: wait, 425: wait, 429: wait,
		408: again, 409: again, 500: again, 501: again, 505: again, 599: again,
		502: wait, 503: wait, 504: wait,
		199: again, 600: again, 0: again,
	} {
		require.Equal(t, want, judge(status), status)
	}
	for status, want := range map[int]bool{
		200: false, 302: true, 400: true, 404: true, 408: false, 409: false, 429: true, 500: false, 502: false,
		503: false, 504: false,
	} {
		require.Equal(t, want, untouched(status), status)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "1.5": 0, "0": 0, "3": 3 * time.Second, " 4 ": 4 * time.Second, "3600": mostPause,
		"99999999999999999999": 0, "Fri, 02 Jan 2026 03:04:10 GMT": 5 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0, "Fri, 02 Jan 2099 03:04:00 GMT": mostPause,
	} {
		require.Equal(t, want, retryAfter(header, now), header)
	}
}

func message(key, value []byte, headers ...consumer.Header) *consumer.Message {
	return &consumer.Message{
		Topic: "order.events", Partition: 3, Offset: 42, Key: key, Value: value, Headers: headers,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), ID: "e-1", Type: "paid", Attempt: 2,
	}
}

func TestHeaders(t *testing.T) {
	o := Options{Prefix: "Event-", ContentType: jsonType, Pass: []string{"tenant"}}
	set := func(m *consumer.Message) http.Header {
		h := http.Header{}
		o.set(h, m)
		return h
	}
	require.Equal(t, http.Header{
		"Event-Id": {"e-1"}, "Event-Type": {"paid"}, "Event-Topic": {"order.events"}, "Event-Partition": {"3"},
		"Event-Offset": {"42"}, "Event-Attempt": {"2"}, "Event-Timestamp": {"2026-01-02T03:04:05.006Z"},
		"Event-Key": {"k 1"}, "Content-Type": {jsonType}, "Idempotency-Key": {"e-1"},
		"Traceparent": {"00-1-2-01"}, "Tenant": {"acme"}, "Ce-Source": {"/shop"},
	}, set(message([]byte("k 1"), []byte("{}"), header("traceparent", "00-1-2-01"), header("Tenant", "acme"),
		header("other", "x"), header("ce_source", "/shop"), header("ce_bad name", "x"))))

	h := set(message([]byte{0xff, 0}, nil, header("content-type", "application/avro")))
	require.Equal(t, "/wA=", h.Get("Event-Key-Base64"))
	require.Empty(t, h.Get("Event-Key"))
	require.Equal(t, "true", h.Get("Event-Null"))
	require.Equal(t, "application/avro", h.Get("Content-Type"))

	// What no header may hold cannot add one.
	m := message([]byte("a\r\nX-Evil: 1"), []byte(""), header("tenant", "grün"), header("traceparent", "x\ny"))
	m.ID = " e\n1"
	h = set(m)
	require.Equal(t, "a%0D%0AX-Evil:%201", h.Get("Event-Key"))
	require.Equal(t, "gr%C3%BCn", h.Get("Tenant"))
	require.Equal(t, "x%0Ay", h.Get("Traceparent"))
	require.Equal(t, "%20e%0A1", h.Get("Idempotency-Key"))
	require.Empty(t, h.Get("Event-Null"))

	o.AtMostOnce = true
	require.NotContains(t, set(m), idempotencyKey)
	for _, name := range []string{"idempotency-key", "X-Idempotency-Key", "content-length", "event-id", "HOST"} {
		require.True(t, o.reserved(name), name)
	}
	require.False(t, o.reserved("Authorization"))
}

func header(name, value string) consumer.Header {
	return consumer.Header{Key: name, Value: []byte(value)}
}

func TestFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("Bearer one\n"), 0o600))
	good := func() *Flags {
		return &Flags{
			Topics: []string{"t"}, Group: "g", To: "https://example.com/hook?key=s3cret", Prefix: "Event-",
			Timeout: time.Second, Budget: time.Minute, Headers: []string{"Authorization: @" + path},
		}
	}
	o, err := good().Options()
	require.NoError(t, err)
	value, err := o.Headers[0].Value()
	require.NoError(t, err)
	require.Equal(t, "Bearer one", value)
	require.NoError(t, os.WriteFile(path, []byte("Bearer two"), 0o600))
	value, err = o.Headers[0].Value()
	require.NoError(t, err)
	require.Equal(t, "Bearer two", value, "the file is read for each call")
	require.Equal(t, "https://example.com/hook", o.shown())
	matching := good()
	matching.Topics, matching.Pattern = nil, `.*\.events`
	o, err = matching.Options()
	require.NoError(t, err)
	require.Equal(t, matching.Pattern, o.Consumer.Pattern)

	for name, spoil := range map[string]func(*Flags){
		"no topic":       func(f *Flags) { f.Topics = nil },
		"no pattern":     func(f *Flags) { f.Pattern = "(" },
		"no group":       func(f *Flags) { f.Group = "" },
		"no URL":         func(f *Flags) { f.To = "" },
		"other scheme":   func(f *Flags) { f.To = "ftp://example.com" },
		"no host":        func(f *Flags) { f.To = "https:///x" },
		"password":       func(f *Flags) { f.To = "https://u:p@example.com" },
		"short budget":   func(f *Flags) { f.Budget = time.Millisecond },
		"no time":        func(f *Flags) { f.Timeout = 0 },
		"prefix":         func(f *Flags) { f.Prefix = "Event: " },
		"no colon":       func(f *Flags) { f.Headers = []string{"x"} },
		"bad name":       func(f *Flags) { f.Headers = []string{"a b: c"} },
		"bad value":      func(f *Flags) { f.Headers = []string{"a: b\nc"} },
		"missing file":   func(f *Flags) { f.Headers = []string{"a: @/does/not/exist"} },
		"reserved":       func(f *Flags) { f.Headers = []string{"Idempotency-Key: 1"} },
		"under a prefix": func(f *Flags) { f.Headers = []string{"event-id: 1"} },
		"passed repeat":  func(f *Flags) { f.Pass = []string{"idempotency-key"} },
		"passed id":      func(f *Flags) { f.Pass = []string{"Event-Id"} },
		"passed host":    func(f *Flags) { f.Pass = []string{"Host"} },
		"passed blank":   func(f *Flags) { f.Pass = []string{"a b"} },
	} {
		f := good()
		spoil(f)
		_, err := f.Options()
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "s3cret", name)
	}
}

// An error of net/http holds the URL with its query.
func TestErrorsHideTheQuery(t *testing.T) {
	to, err := url.Parse("https://example.com/hook?key=s3cret")
	require.NoError(t, err)
	f := &forwarder{opts: Options{URL: to}}
	said := f.said(&url.Error{Op: "Post", URL: to.String(), Err: errors.New("broken")})
	require.EqualError(t, said, "POST https://example.com/hook: broken")
}

// An answer that is not HTTP may repeat the request: its address with the query, or the payload.
//
// Bug (letters): The errors of `forward` quoted an answer that was not HTTP. Cost: payload or query in the log and in
// the dead letter.
func TestErrorsHideTheAnswer(t *testing.T) {
	for name, answer := range map[string]func(request []byte) []byte{
		"an echo":         func(request []byte) []byte { return request },
		"no status":       func([]byte) []byte { return []byte("c4nary\r\n\r\n") },
		"a broken header": func([]byte) []byte { return []byte("HTTP/1.1 200 OK\r\nc4nary\r\n\r\n") },
		"a blank first":   func([]byte) []byte { return []byte("HTTP/1.1 200 OK\r\n c4nary: 1\r\n\r\n") },
		"a broken length": func([]byte) []byte { return []byte("HTTP/1.1 200 OK\r\nContent-Length: c4nary\r\n\r\n") },
		"a broken encoding": func([]byte) []byte {
			return []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: c4nary\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = endpoint.Close() })
			go func() {
				for {
					conn, err := endpoint.Accept()
					if err != nil {
						return
					}
					buf := make([]byte, 4096)
					n, _ := conn.Read(buf)
					_, _ = conn.Write(answer(buf[:n]))
					_ = conn.Close()
				}
			}()
			to, err := url.Parse("http://" + endpoint.Addr().String() + "/hook?key=c4nary")
			require.NoError(t, err)
			f := &forwarder{
				opts:    Options{URL: to, Timeout: time.Minute, Prefix: "Event-", ContentType: jsonType},
				client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
				metrics: NewMetrics(prometheus.NewRegistry()),
			}
			err = f.call(t.Context(), *message(nil, []byte("c4nary")))
			require.ErrorContains(t, err, "the answer is not HTTP")
			require.NotContains(t, err.Error(), "c4nary")
			require.NotErrorIs(t, err, inbox.ErrNotSent)
		})
	}
}
