package consumer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// Records whose value alone has the event's id are handled once each, and a letter keeps the id where the value had it.
//
// Bug (monitor): Events whose envelope alone has the id had no id for the consumer. Cost: all of such a topic became
// dead letters.
func TestIDsInTheEnvelope(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	bare := func(value string) *kgo.Record {
		r := record("k", "x")
		r.Headers = nil
		if r.Value = []byte(value); value == "" {
			r.Value = nil
		}
		return r
	}
	b.produce(t, bare(`{"eventId":"a","payload":{"id":1}}`), bare(`{"eventId":17}`), bare(`{"eventId":"a"}`),
		bare(`{"eventId":12345678901234567890}`), bare(`{"eventId":"bad"}`), bare(`{"eventId":null}`), bare(`[1]`),
		bare(""), bare(`{"eventId":"z"}`))
	opts := b.options()
	opts.ID = consumer.MemberID("eventId")
	var j journal
	start(t, opts, func(_ context.Context, m consumer.Message) error {
		if m.ID == "bad" {
			return consumer.Permanent(errBad)
		}
		j.add(m)
		return nil
	})
	b.awaitCommitted(t, 9)
	require.Equal(t, []string{"a", "17", "12345678901234567890", "z"}, j.ids())
	var got [][3]string
	for _, l := range b.letters(t) {
		got = append(got, [3]string{
			header(l, consumer.HeaderReason), header(l, consumer.HeaderClass), header(l, consumer.HeaderEventID),
		})
	}
	require.Equal(t, [][3]string{
		{"bad event", "permanent", "bad"},
		{"the record's value has no member eventId that is a string or a number", "no_id", ""},
		{"the record's value has no member eventId: it is not such a JSON object", "no_id", ""},
		{"the record has no value, so no member eventId", "no_id", ""},
	}, got)
}

func TestHowAnIDIsFound(t *testing.T) {
	t.Parallel()
	m := consumer.Message{}
	m.Value = []byte(`{"payload":{"id":"deep"},"n":1.50}`)
	for want, find := range map[string]consumer.ID{
		"deep": consumer.MemberID("payload", "id"),
		"1.50": consumer.MemberID("n"),
	} {
		id, err := find(m)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	_, err := consumer.MemberID("payload")(m)
	require.ErrorContains(t, err, "no member payload that is a string or a number")
	_, err = consumer.HeaderID("event-id")(m)
	require.EqualError(t, err, "the record has no event-id header")
}
