package nats

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

func newReader(t *testing.T, s *natsserver.Server) *Reader {
	r, err := OpenReader(Cluster{Servers: []string{s.URL()}, Stream: streamOfTests})()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r.(*Reader)
}

// all reads a span.
func (r *Reader) all(t *testing.T, s sink.Span) (all []*sink.Message) {
	t.Helper()
	for m, err := range r.Messages(within(t), s) {
		require.NoError(t, err)
		all = append(all, m.Clone())
	}
	return all
}

// A record is read as it was published, whatever is in it.
func TestRecordsAreReadAsTheyWerePublished(t *testing.T) {
	s := natsserver.Start(t, nil)
	natsserver.Stream(t, s.URL(), streamConfig())
	p := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, p.begin())
	records := []*router.Record{
		event(3),
		{Topic: "outbox.t0", Timestamp: 1, Headers: []router.Header{{Key: "id", Value: []byte("tombstone")}}},
		{Topic: "outbox.t0", Timestamp: 2, Key: []byte{}, Value: []byte{}},
		{
			Topic: "outbox.t0", Timestamp: 3, Key: []byte(" k\n\x00%41 "), Value: []byte("v"),
			Headers: []router.Header{
				{Key: "a", Value: []byte("100 %")},
				{Key: "b", Value: []byte("%41")},
				{Key: "b", Value: []byte("line\r\nline %25")},
				{Key: "b", Value: []byte("%42")},
				{Key: "id", Value: []byte("4")},
			},
		},
	}
	for i, rec := range records {
		require.NoError(t, p.ProduceAt(t.Context(), rec, uint64(i), at(uint64(i+1))))
	}
	p.drain()
	r := newReader(t, s)
	spans, err := r.Spans(t.Context(), "outbox.t0", "outbox.t1")
	require.NoError(t, err)
	require.Equal(t, []sink.Span{
		{Topic: "outbox.t0", End: 5}, {Topic: "outbox.t1", End: 5},
	}, spans)
	read := r.all(t, spans[0])
	require.Len(t, read, len(records))
	for i, m := range read {
		want := records[i]
		require.Equal(t, sink.Message{
			Topic: want.Topic, Offset: int64(i + 1), Timestamp: want.Timestamp, Key: want.Key, Value: want.Value,
			Headers: want.Headers,
		}, *m)
	}
	require.Empty(t, r.all(t, spans[1]))
	topics, err := r.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"outbox.t0"}, topics)
}

// A span is read to its end, once and in order, over a restart of the server, while more is published, and with
// messages missing in between.
func TestSpanIsReadToItsEnd(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, _ := natsserver.Stream(t, s.URL(), streamConfig())
	p := open(t, Cluster{Servers: []string{s.URL()}})
	n := size(3000)
	p.publish(n)
	require.NoError(t, stream.DeleteMsg(t.Context(), 6))
	r := newReader(t, s)
	spans, err := r.Spans(t.Context(), "outbox.t0")
	require.NoError(t, err)
	p.publish(n + 10)
	var want, read []string
	for i := uint64(3); i <= n; i += 3 {
		if i != 6 {
			want = append(want, fmt.Sprintf("event %d", i))
		}
	}
	for m, err := range r.Messages(within(t), spans[0]) {
		require.NoError(t, err)
		if read = append(read, string(m.Value)); len(read) == len(want)/2 {
			s.Down()
			s.Up()
		}
	}
	require.Equal(t, want, read)
	half, err := r.Since(t.Context(), spans[0], time.Now().Add(-time.Hour).UnixMilli())
	require.NoError(t, err)
	require.Zero(t, half.From)
	none, err := r.Since(t.Context(), spans[0], time.Now().Add(time.Hour).UnixMilli())
	require.NoError(t, err)
	require.Equal(t, none.End, none.From)
}

// The stream is another than before, or lacks what it had: what is absent proves nothing.
func TestStreamThatChangesWhileItIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("two servers with thousands of messages")
	}
	for name, change := range map[string]func(*testing.T, jetstream.JetStream){
		"made again": func(t *testing.T, js jetstream.JetStream) {
			_, err := js.CreateStream(t.Context(), streamConfig())
			require.NoError(t, err)
			for range 2000 {
				_, err := js.PublishAsync("outbox.t0", nil)
				require.NoError(t, err)
			}
			<-js.PublishAsyncComplete()
		},
		"put back": func(t *testing.T, js jetstream.JetStream) {
			_, err := js.CreateStream(t.Context(), streamConfig())
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := natsserver.Start(t, nil)
			_, js := natsserver.Stream(t, s.URL(), streamConfig())
			p := open(t, Cluster{Servers: []string{s.URL()}})
			p.publish(1000)
			r := newReader(t, s)
			spans, err := r.Spans(t.Context(), "outbox.t0")
			require.NoError(t, err)
			n, failed := 0, error(nil)
			for _, err := range r.Messages(within(t), spans[0]) {
				if failed = err; failed == nil && n == 0 {
					require.NoError(t, js.DeleteStream(t.Context(), streamOfTests))
					change(t, js)
				}
				n++
			}
			require.ErrorContains(t, failed, "it was made again, or put back to an older state, while it was read")
			require.Equal(t, fault.Operator, fault.KindOf(failed))
		})
	}
}

// Any replica answers a direct get, also one that lacks the newest messages. So neither the position of the last
// message nor what commands read is asked for in that way, although the stream would allow it.
//
// Bug (producer): With `sink: nats` the last message of a stream with allow_direct was asked from any of its replicas.
// Cost: where a replica lagged, as after its restart, a new connector could take the message for removed, and repeat
// what followed an older one.
func TestMessagesAreAskedFromTheLeader(t *testing.T) {
	s := natsserver.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$JS.API.DIRECT.>"}},
		}}}
	})
	config := streamConfig()
	config.AllowDirect = true
	natsserver.Stream(t, "nats://u:p@"+strings.TrimPrefix(s.URL(), "nats://"), config)
	cluster := Cluster{
		Servers: []string{s.URL()}, Stream: streamOfTests,
		Login: loginOfU("p"),
	}
	p := open(t, cluster)
	p.publish(9)
	p.Abandon()
	require.EqualValues(t, 9, p.begin())
	r, err := OpenReader(cluster)()
	require.NoError(t, err)
	defer r.Close()
	n := 0
	for _, err := range r.Messages(within(t), sink.Span{Topic: "outbox.t0", End: 10}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 3, n)
}

// What the stream has removed is in doubt, whatever the subject has left.
func TestRemovedMessagesAreInDoubt(t *testing.T) {
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), streamConfig())
	r := newReader(t, s)
	for range 3 {
		_, err := js.Publish(t.Context(), "outbox.t0", nil)
		require.NoError(t, err)
	}
	before, err := r.Removed(t.Context(), sink.Span{Topic: "outbox.t0"})
	require.NoError(t, err)
	require.Zero(t, before)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeKeep(1)))
	before, err = r.Removed(t.Context(), sink.Span{Topic: "outbox.t1"})
	require.NoError(t, err)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, info.State.FirstTime, before)
	require.NoError(t, stream.Purge(t.Context()))
	before, err = r.Removed(t.Context(), sink.Span{Topic: "outbox.t0"})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), before, time.Minute)
	config := streamConfig()
	config.MaxMsgsPerSubject = 5
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	before, err = r.Removed(t.Context(), sink.Span{Topic: "outbox.t0"})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), before, time.Minute)
}

// Other writers' messages are read, whatever they are.
func TestOddMessagesAreRead(t *testing.T) {
	s := natsserver.Start(t, nil)
	_, js := natsserver.Stream(t, s.URL(), streamConfig())
	for _, h := range []client.Header{
		nil, {"Status": {"404"}}, {headerEscaped: {"a,,b"}, "a": {"%zz"}, "b": {"%00"}, headerTime: {"noon"}},
	} {
		_, err := js.PublishMsg(t.Context(), &client.Msg{Subject: "outbox.t0", Header: h})
		require.NoError(t, err)
	}
	r := newReader(t, s)
	spans, err := r.Spans(t.Context(), "outbox.t0")
	require.NoError(t, err)
	read := r.all(t, spans[0])
	require.Len(t, read, 3)
	require.Equal(t, []router.Header{{Key: "Status", Value: []byte("404")}}, read[1].Headers)
	require.Equal(t, []router.Header{{Key: "a", Value: []byte("%zz")}, {Key: "b", Value: []byte{0}}}, read[2].Headers)
	require.True(t, read[2].AppendTime)
}

// A message without a payload and with a header Status would be taken for an answer of the server by the client library
// of consumers, which would wait for it for ever.
func TestStatusWithoutAPayloadIsRefused(t *testing.T) {
	s := natsserver.Start(t, nil)
	natsserver.Stream(t, s.URL(), streamConfig())
	p := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, p.begin())
	rec := event(1)
	rec.Headers = append(rec.Headers, router.Header{Key: "Status", Value: []byte("shipped")})
	require.NoError(t, p.ProduceAt(t.Context(), rec, 1, at(1)))
	rec.Value = nil
	var refused *sink.RefusedError
	require.ErrorAs(t, p.ProduceAt(t.Context(), rec, 2, at(2)), &refused)
	require.Equal(t, sink.InvalidRecord, refused.Reason)
	p.drain()
}

func TestStreamThatCannotBeRead(t *testing.T) {
	s := natsserver.Start(t, nil)
	r := newReader(t, s)
	_, err := r.Topics(t.Context())
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "it does not exist")
	config := streamConfig()
	config.Retention = jetstream.WorkQueuePolicy
	natsserver.Stream(t, s.URL(), config)
	_, err = r.Spans(t.Context(), "outbox.t0")
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "it removes what was consumed")
	config.Retention = jetstream.LimitsPolicy
	config.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "outbox.*", Destination: "s.{{wildcard(1)}}"}
	require.ErrorContains(t, r.readable(&config), "subject_transform")
}

func TestSubjectThatTheStreamLacksIsNoTopic(t *testing.T) {
	s := natsserver.Start(t, nil)
	config := streamConfig()
	config.MaxAge, config.MaxBytes, config.MaxMsgs = time.Hour, 1<<20, 9
	natsserver.Stream(t, s.URL(), config)
	r := newReader(t, s)
	_, err := r.Spans(t.Context(), "elsewhere")
	require.ErrorIs(t, err, sink.ErrNoTopic)
	keeps, err := r.Retention(t.Context(), "outbox.t0")
	require.NoError(t, err)
	require.Equal(t, sink.Retention{
		Object: `stream "OUTBOX"`, Age: time.Hour, Bytes: 1 << 20, KeepAge: "nats stream edit OUTBOX --max-age=-1",
		KeepBytes: "nats stream edit OUTBOX --max-bytes=-1", Messages: 9,
		KeepMessages: "nats stream edit OUTBOX --max-msgs=-1 --max-msgs-per-subject=-1",
	}, keeps)
}

// A right that is missing is named at once, with all that reading needs.
func TestRightToReadThatIsMissing(t *testing.T) {
	s := natsserver.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>", "outbox.*"}},
		}}}
	})
	login := loginOfU("p")
	p := open(t, Cluster{
		Servers: []string{s.URL()}, Create: &Creation{Subjects: []string{"outbox.*"}, Replicas: 1}, Login: login,
	})
	p.publish(3)
	p.close()
	s.Reload(func(o *server.Options) {
		o.Users[0].Permissions.Publish.Deny = []string{"$JS.API.STREAM.MSG.GET.>"}
	})
	r, err := OpenReader(Cluster{Servers: []string{s.URL()}, Stream: streamOfTests, Login: login})()
	require.NoError(t, err)
	defer r.Close()
	for _, err = range r.Messages(t.Context(), sink.Span{Topic: "outbox.t0", From: 1, End: 4}) {
		require.Error(t, err)
	}
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, `permissions violation`)
	require.ErrorContains(t, err, `$JS.API.STREAM.MSG.GET.OUTBOX`)
}
