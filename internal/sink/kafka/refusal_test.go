package kafka

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func limit(t testing.TB, c *kfake.Cluster, topic, bytes string) {
	t.Helper()
	alter(t, c, topic, wire.MaxMessageBytes, bytes)
}

func alter(t testing.TB, c *kfake.Cluster, topic, name, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{
		Name:  name,
		Value: kmsg.StringPtr(value),
	}}
	req.Resources = append(req.Resources, res)
	_, err := req.RequestWith(context.Background(), adminClient(t, c))
	require.NoError(t, err)
}

// noise does not compress.
func noise(n int) []byte {
	out := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = byte(x)
	}
	return out
}

// TestRefusedEarly: what cannot fit even alone is not taken; what compresses enough, or fits to the byte, is; and a
// limit that was raised counts.
func TestRefusedEarly(t *testing.T) {
	for _, compression := range []string{"none", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "2000"}))
				r := newRig(t, c, func(cfg *Config) { cfg.Compression = compression })
				r.warm()
				produce := func(value []byte) error {
					return r.Produce(context.Background(), &router.Record{
						Topic: "t", Partition: -1, Key: []byte("k"),
						Value: value,
					},
						r.ticket+1)
				}
				exact, err := r.cfg.sizeAlone(&router.Record{Topic: "t", Key: []byte("k"), Value: noise(1500)})
				require.NoError(t, err)
				fitting := noise(1500 + 2000 - exact)

				var refused *sink.RefusedError
				require.ErrorAs(t, produce(append(fitting, 0)), &refused)
				require.Equal(t, sink.RefusedError{
					Topic: "t", Bytes: 2001, Limit: 2000, Reason: sink.TooLarge, Remedy: fault.Do("",
						r.cfg.Command("kafka-configs",
							"--alter --entity-type topics --entity-name t --add-config max.message.bytes=2251")),
				}, *refused)

				require.NoError(t, produce(fitting))
				r.ticket++
				if compression != "none" {
					require.NoError(t, produce(make([]byte, 50_000)))
					r.ticket++
				}
				r.drain()

				limit(t, c, "t", "2001")
				require.Eventually(t, func() bool { return produce(append(fitting, 0)) == nil }, testPatience,
					r.cfg.pace.slow/3)
				r.ticket++
				r.drain()
				r.checkAcks()
				require.Empty(t, r.Trouble())
			})
		})
	}
}
