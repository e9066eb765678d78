package kafka

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// A broker that hangs accepts connections and answers nothing. What it is called, and what to do about it, is there
// from the first report on, and stays when this program gives its connections up.
//
// Bug (monitor): A broker that hangs was reported without a remedy for 30 s, then by this program's own closing of the
// connection, with advice about TLS. Cost: an hour's search for a listener that had worked all night.
func TestABrokerThatHangsIsCalledThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		var between staller
		r := newRig(t, c, func(cfg *Config) {
			cfg.Dial = between.dial
			cfg.pace.slowAnswer = 50 * time.Millisecond
			cfg.RequestTimeout, cfg.DialTimeout = 400*time.Millisecond, 300*time.Millisecond
		})
		r.warm()
		between.stall()
		r.produce("t", "k")
		r.Flush()
		says := func(words string) func() bool {
			return func() bool {
				found := false
				for _, tr := range r.Trouble() {
					require.Equal(t, sink.BrokerUnreachable, tr.Kind)
					require.Contains(t, tr.Sentence, "it hangs or is overloaded; it answered until 20")
					require.Contains(t, tr.Remedy, "garbage collection")
					require.NotContains(t, tr.Sentence+tr.Remedy, "closed network connection")
					require.NotContains(t, tr.Sentence+tr.Remedy, "TLS")
					found = found || strings.Contains(tr.Sentence, words)
				}
				return found
			}
		}
		require.Eventually(t, says("has not answered for "), testPatience, time.Millisecond)
		require.Eventually(t, says("accepts connections and does not answer within "), testPatience, time.Millisecond)
		between.deliver()
		r.drain()
		require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, testPatience, time.Millisecond)
	})
}

// A leader that waits for a follower does not hang: with three brokers of which one hangs, the other two are not to be
// restarted.
//
// Bug (monitor): While one broker hung, each leader that waited for it as a follower was reported as hanging, with the
// advice to restart it. Cost: healthy brokers restarted in an outage.
func TestABrokerThatWaitsForAFollowerDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.pace.slowAnswer = 50 * time.Millisecond })
		r.warm()
		follower := make(chan struct{})
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.SleepControl(func() { <-follower })
			return nil, nil, false
		})
		r.produce("t", "k")
		r.Flush()
		require.Eventually(t, func() bool { return len(r.Trouble()) > 0 }, testPatience, time.Millisecond)
		tr := r.Trouble()[0]
		require.Equal(t, sink.NotEnoughReplicas, tr.Kind)
		require.Contains(t, tr.Sentence, "answers, and has acknowledged nothing for ")
		require.Contains(t, tr.Commands[0], "--under-replicated-partitions")
		close(follower)
		r.drain()
		require.Empty(t, r.Trouble())
		r.lock()
		defer r.Producer.mu.Unlock()
		for _, b := range r.brokers {
			require.False(t, b.conn.silence.waits(), "or the loss of its connection would not be reported later")
		}
	})
}

// A listener that never answered may not be a broker at all.
func TestAListenerThatNeverAnsweredMayNotBeKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addr = "kafka:9092"
		cluster := wire.Cluster{
			Brokers: []string{addr}, DialTimeout: 500 * time.Millisecond,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			},
		}
		cluster.SetDefaults()
		_, err := wire.Dial(t.Context(), &cluster, addr)
		var de *wire.DialError
		require.ErrorAs(t, err, &de)
		require.Contains(t, de.Remedy, "whether it expects TLS or SASL")
		require.Equal(t, "The broker at "+addr+" accepts connections and does not answer within 500 ms.",
			wire.Sentences("broker x", err))
	})
}
