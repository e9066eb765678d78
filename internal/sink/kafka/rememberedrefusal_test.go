package kafka

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A refusal is about the record, whatever its time, and about no other.
func TestRefusalsAreAboutARecord(t *testing.T) {
	rec := func(change func(*router.Record)) *router.Record {
		r := &router.Record{
			Topic: "t", Partition: -1, Key: []byte("k"), Value: []byte("v"), Timestamp: 1,
			Headers: []router.Header{{Key: "a", Value: []byte("b")}, {Key: "c"}},
		}
		change(r)
		return r
	}
	topic := &topic{name: "t"}
	topic.remember(rec(func(*router.Record) {}), sink.RefusedError{})
	for name, test := range map[string]struct {
		change func(*router.Record)
		same   bool
	}{
		"itself":         {func(*router.Record) {}, true},
		"another time":   {func(r *router.Record) { r.Timestamp = 2 }, true},
		"another key":    {func(r *router.Record) { r.Key = []byte("l") }, false},
		"another value":  {func(r *router.Record) { r.Value = []byte("w") }, false},
		"another header": {func(r *router.Record) { r.Headers[0].Value = []byte("d") }, false},
		"a header less":  {func(r *router.Record) { r.Headers = r.Headers[:1] }, false},
		"moved bytes":    {func(r *router.Record) { r.Key, r.Value = []byte("kv"), nil }, false},
	} {
		_, found := topic.refused.of[fingerprint(rec(test.change))]
		require.Equal(t, test.same, found, name)
	}
}

// Refusals are bounded in number, and forgotten in time.
func TestRefusalsAreBounded(t *testing.T) {
	topic := &topic{name: "t"}
	for n := range mostRefused + 1 {
		topic.remember(&router.Record{Value: fmt.Append(nil, n)}, sink.RefusedError{})
		require.LessOrEqual(t, len(topic.refused.of), mostRefused)
	}
	require.Len(t, topic.refused.of, 1)
	topic.forgetRefusals(topic.refused.last.Add(refusedAge))
	require.NotNil(t, topic.refused)
	topic.forgetRefusals(topic.refused.last.Add(refusedAge + 1))
	require.Nil(t, topic.refused)
}

// A record that was refused is refused again until the topic's settings have changed, or for ten minutes; with settings
// that are not known, for ten minutes.
func TestRefusedBefore(t *testing.T) {
	for name, test := range map[string]struct {
		was, is string // settings
		since   time.Duration
		refused bool
	}{
		"at once":               {"a", "a", 0, true},
		"later":                 {"a", "a", 10*time.Minute - 1, true},
		"long after":            {"a", "a", 10 * time.Minute, false},
		"other settings":        {"a", "b", 0, false},
		"not known":             {"", "", 10*time.Minute - 1, true},
		"not known, long after": {"", "", 10 * time.Minute, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t)
			topic := p.topic("t")
			topic.settings = test.was
			rec := &router.Record{Value: []byte("v")}
			topic.remember(rec, sink.RefusedError{Topic: "t"})
			time.Sleep(test.since)
			topic.described, topic.describedAt, topic.settings = true, time.Now(), test.is
			p.mu.Lock()
			defer p.mu.Unlock()
			var refused *sink.RefusedError
			require.Equal(t, test.refused, errors.As(p.refusedBefore(t.Context(), topic, rec), &refused), name)
			require.NoError(t, p.refusedBefore(t.Context(), topic, &router.Record{Value: []byte("w")}), name)
		})
	}
}
