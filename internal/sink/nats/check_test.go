package nats

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, subject string
		want             bool
	}{
		{"outbox.order", "outbox.order", true},
		{"outbox.*", "outbox.order", true},
		{"outbox.*", "outbox", false},
		{"outbox.*", "outbox.order.eu", false},
		{"outbox.*.eu", "outbox.order.eu", true},
		{"outbox.>", "outbox.order.eu", true},
		{"outbox.>", "outbox", false},
		{"outbox.order", "outbox", false},
		{">", "outbox", true},
	} {
		require.Equal(t, tc.want, matches(tc.pattern, tc.subject), "%+v", tc)
	}
}

// Settings that lose events are found before they do; where nothing can be published, run says the same.
func TestJudgeStream(t *testing.T) {
	type config = jetstream.StreamConfig
	good := jetstream.StreamConfig{Name: streamOfTests, Subjects: []string{"outbox.*"}, Replicas: 3}
	require.Empty(t, judgeStream(&good, true))
	for name, tc := range map[string]struct {
		change      func(*config)
		exactlyOnce bool
		never       bool
		want        string
	}{
		"no acks":   {func(c *config) { c.NoAck = true }, false, true, "acknowledges nothing"},
		"sealed":    {func(c *config) { c.Sealed = true }, false, true, "sealed"},
		"mirror":    {func(c *config) { c.Mirror = &jetstream.StreamSource{} }, false, true, "mirror"},
		"sources":   {func(c *config) { c.Sources = []*jetstream.StreamSource{{}} }, false, true, "sources"},
		"memory":    {func(c *config) { c.Storage = jetstream.MemoryStorage }, false, false, "memory"},
		"replicas":  {func(c *config) { c.Replicas = 1 }, false, false, "1 replica"},
		"old go":    {func(c *config) { c.MaxMsgs = 9 }, false, false, "discards its oldest"},
		"by key":    {func(c *config) { c.MaxMsgsPerSubject = 1 }, false, false, "each subject"},
		"interest":  {func(c *config) { c.Retention = jetstream.InterestPolicy }, false, false, "interest"},
		"workqueue": {func(c *config) { c.Retention = jetstream.WorkQueuePolicy }, true, true, "WorkQueue"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tc.change(&c)
			found := judgeStream(&c, tc.exactlyOnce)
			require.Len(t, found, 1)
			require.Equal(t, tc.never, found[0].Level == preflight.Fail)
			require.Contains(t, found[0].Found, tc.want)
			require.NotEmpty(t, found[0].Why)
			require.NotEmpty(t, found[0].Remedy)
		})
	}
}

func TestCheck(t *testing.T) {
	s := natsserver.Start(t, func(o *server.Options) { o.Username, o.Password = "u", "p" })
	cluster := Cluster{
		Servers: []string{s.URL()}, Stream: streamOfTests,
		Login: loginOfU("wrong"),
	}
	levels := func(topics ...string) (all []string) {
		for _, f := range Check(within(t), cluster, true, topics) {
			all = append(all, string(f.Level)+" "+f.Subject)
		}
		return all
	}
	require.Equal(t, []string{"fail nats " + s.URL()}, levels())
	cluster.Login = loginOfU("p")
	require.Equal(t, []string{"ok nats " + s.URL(), `fail stream "OUTBOX"`}, levels())
	cluster.Create = &Creation{Subjects: []string{"outbox.>"}, Replicas: 1}
	require.Equal(t, []string{"ok nats " + s.URL(), `ok stream "OUTBOX"`, `fail subject "letters"`},
		levels("outbox.order", "letters"))
	require.Equal(t, []string{"ok nats " + s.URL(), `ok stream "OUTBOX"`}, levels(), "a check has created nothing")
	require.ErrorContains(t, cluster.Takes(within(t), "outbox.letters"), "it does not exist")

	r := open(t, cluster)
	require.Zero(t, r.begin())
	require.Equal(t, []string{
		"ok nats " + s.URL(), `ok stream "OUTBOX"`, `fail subject "a..b"`, `warn stream "OUTBOX"`,
	}, levels("outbox.order", "a..b"))
	require.NoError(t, cluster.Takes(within(t), "outbox.letters"))
	err := cluster.Takes(within(t), "letters")
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, `stream "OUTBOX" does not take it`)

	cluster.Servers = []string{"nats://127.0.0.1:1"}
	found := Check(within(t), cluster, true, nil)
	require.Equal(t, preflight.Fail, found[0].Level)
	require.Contains(t, found[0].Found, "No connection to NATS")
}

// A stream in which exactly_once cannot be kept is refused at the start, with the words of check.
func TestUnfitStream(t *testing.T) {
	s := natsserver.Start(t, nil)
	c := streamConfig()
	c.Retention = jetstream.WorkQueuePolicy
	natsserver.Stream(t, s.URL(), c)
	r := open(t, Cluster{Servers: []string{s.URL()}})
	require.Zero(t, r.begin())
	r.cfg.ExactlyOnce = true
	_, _, err := r.Begin(within(t), owner)
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "Use a stream with retention limits")
}

func TestPositionsAreReadAsTheyWereWritten(t *testing.T) {
	p := at(0x16B3748)
	p.Index, p.Time = 7, p.Time.UTC()
	read, err := parsePosition(positionText(p))
	require.NoError(t, err)
	require.Equal(t, p, read)
	snapshot := sink.Position{Timeline: 2, Position: p.Position}
	read, err = parsePosition(positionText(snapshot))
	require.NoError(t, err)
	require.Equal(t, snapshot, read)
}

// The stream may hold anything: it has other writers.
func FuzzPosition(f *testing.F) {
	f.Add(positionText(at(77)))
	f.Add("1 2-3 4")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err != nil {
			return
		}
		again, err := parsePosition(positionText(p))
		require.NoError(t, err)
		require.Equal(t, p.Position, again.Position)
	})
}
