package kafka

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// A broker that hangs accepts connections and answers nothing. What it is called, and what to do about it, is there
// from the first report on, and stays when this program gives its connections up.
func TestABrokerThatHangsIsCalledThat(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	between, err := proxy.Start(c.ListenAddrs()[0], proxy.Raw)
	require.NoError(t, err)
	t.Cleanup(between.Close)
	r := newRig(t, c, func(cfg *Config) {
		cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, between.Addr())
		}
		cfg.pace.slowAnswer = 50 * time.Millisecond
		cfg.RequestTimeout, cfg.DialTimeout = 400*time.Millisecond, 300*time.Millisecond
	})
	r.warm()
	between.Stall(true)
	r.produce("t", "k")
	r.Flush()
	says := func(words string) func() bool {
		return func() bool {
			found := false
			for _, tr := range r.Trouble() {
				require.Equal(t, wire.BrokerUnreachable, tr.Kind)
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
	between.Stall(false)
	r.drain()
	require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, testPatience, time.Millisecond)
}

// A listener that never answered may not be a broker at all.
func TestAListenerThatNeverAnsweredMayNotBeKafka(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	cluster := wire.Cluster{Brokers: []string{l.Addr().String()}, DialTimeout: 500 * time.Millisecond}
	cluster.SetDefaults()
	_, err = wire.Dial(t.Context(), &cluster, l.Addr().String())
	var de *wire.DialError
	require.ErrorAs(t, err, &de)
	require.Contains(t, de.Remedy, "whether it expects TLS or SASL")
	require.Equal(t, "The broker at "+l.Addr().String()+" accepts connections and does not answer within 500 ms.",
		wire.Sentences("broker x", err))
}
