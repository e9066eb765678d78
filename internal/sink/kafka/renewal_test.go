package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// dials counts connections.
func dials(cfg *Config) *atomic.Int32 {
	var n atomic.Int32
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, addr)
	}
	return &n
}

// stream produces until done says so.
//
//waits:bubble
func stream(t *testing.T, p *Producer, done func() bool) (sent int32) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		require.True(t, time.Now().Before(deadline), "trouble: %+v", p.Trouble())
		require.NoError(t, p.Produce(t.Context(), &router.Record{
			Topic: "t", Partition: -1, Key: []byte{byte(sent)},
			Value: make([]byte, 200),
		}, 1))
		p.Flush()
		if sent++; sent%20 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	require.NoError(t, p.Drain(t.Context()))
	return sent
}

// TestAuthenticatesAgainUnderLoad: a session that the broker limits (KIP-368) is renewed on the live connection, with
// nothing else on the wire and the password as it is now.
func TestAuthenticatesAgainUnderLoad(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(3, "t"), kfake.EnableSASL(),
					kfake.Superuser(mechanism, "user", "right"),
					kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1"}))
				var passwords atomic.Int32
				cfg := Config{Cluster: wire.Cluster{Brokers: c.ListenAddrs(), Dial: dial}, MetadataInterval: time.Hour}
				cfg.SASL = &wire.SASL{
					Mechanism: mechanism, Username: "user",
					Password: func() (string, error) { passwords.Add(1); return "right", nil },
				}
				opened := dials(&cfg)
				p, acked := bare(t, cfg)
				stream(t, p, func() bool { return passwords.Load() >= 2 }) // control, and the data's connection
				onlyOne := func(kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					p.mu.Lock()
					defer p.mu.Unlock()
					for _, b := range p.brokers {
						b.conn.mu.Lock()
						if b.conn.flying > 1 { // 1, or 0 while the writer has not counted it yet
							t.Errorf("%d requests on the wire beside the authentication", b.conn.flying-1)
						}
						b.conn.mu.Unlock()
					}
					return nil, nil, false
				}
				c.ControlKey(int16(kmsg.SASLHandshake), onlyOne)
				c.ControlKey(int16(kmsg.SASLAuthenticate), onlyOne)
				stream(t, p, func() bool { return passwords.Load() >= 4 })
				require.Equal(t, p.produced, uint64(acked.Load()))
				require.Equal(t, int32(2), opened.Load(), "no connection was re-created")
				require.Zero(t, testutil.ToFloat64(p.metrics.rewinds))
				require.Empty(t, p.Trouble())
			})
		})
	}
}

// TestARefusedRenewalIsSaid and the producer continues when the password is right again.
func TestARefusedRenewalIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(3, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "right"),
			kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1"}))
		var password atomic.Value
		password.Store("right")
		cfg := Config{Cluster: wire.Cluster{Brokers: c.ListenAddrs(), Dial: dial}, MetadataInterval: time.Hour}
		cfg.SASL = &wire.SASL{
			Mechanism: "PLAIN", Username: "user",
			Password: func() (string, error) { return password.Load().(string), nil },
		}
		p, acked := bare(t, cfg)
		sent := stream(t, p, func() bool { return acked.Load() > 10 })
		password.Store("rotated too early")
		sent += stream(t, p, func() bool {
			for _, x := range p.Trouble() {
				if x.Kind == sink.NotAuthenticated {
					password.Store("right")
					return true
				}
			}
			return false
		})
		require.Equal(t, sent, acked.Load())
	})
}

// TestControlConnectionAuthenticatesAgain before its next request, however long it was idle.
func TestControlConnectionAuthenticatesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(),
			kfake.Superuser("SCRAM-SHA-512", "user", "right"),
			kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1"}))
		var passwords, wrong atomic.Int32
		cfg := Config{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}, MetadataInterval: 20 * time.Millisecond}
		cfg.SASL = &wire.SASL{Mechanism: "SCRAM-SHA-512", Username: "user", Password: func() (string, error) {
			passwords.Add(1)
			if wrong.Load() > 0 {
				return "", errors.New("no such file")
			}
			return "right", nil
		}}
		opened := dials(&cfg)
		p, _ := bare(t, cfg)
		require.NoError(t, p.Produce(t.Context(), &router.Record{Topic: "t", Value: []byte("v")}, 1))
		require.NoError(t, p.Drain(t.Context()))
		require.Eventually(t, func() bool { return passwords.Load() >= 4 }, testPatience, time.Millisecond)
		require.Equal(t, int32(2), opened.Load())
		wrong.Store(1)
		require.Eventually(t, func() bool {
			return len(p.Trouble()) > 0 && p.Trouble()[0].Kind == sink.NotAuthenticated
		}, testPatience, time.Millisecond)
		wrong.Store(0)
		require.Eventually(t, func() bool { return len(p.Trouble()) == 0 }, testPatience, time.Millisecond)
	})
}

// apiVersions is the body of an answer that offers each API up to the version after it.
func apiVersions(offers ...protocol.ApiKey) []byte {
	body := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(len(offers)/2))
	for i := 0; i < len(offers); i += 2 {
		body = binary.BigEndian.AppendUint16(body, uint16(offers[i]))
		body = binary.BigEndian.AppendUint32(body, uint32(offers[i+1])) // lowest 0, highest
	}
	return body
}

// TestRenewalWaitsForItsTurn: until everything sent is answered, and nothing follows before it is through.
func TestRenewalWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		next := func() (key, id int) {
			head := make([]byte, 12)
			_, err := io.ReadFull(there, head)
			require.NoError(t, err)
			_, err = io.CopyN(io.Discard, there, int64(binary.BigEndian.Uint32(head))-8)
			require.NoError(t, err)
			return int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint32(head[8:]))
		}
		answer := func(id int, body ...byte) {
			frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
			frame = binary.BigEndian.AppendUint32(frame, uint32(id))
			_, err := there.Write(append(frame, body...))
			require.NoError(t, err)
		}

		cfg := Config{Cluster: wire.Cluster{
			SASL: &wire.SASL{Mechanism: "PLAIN", Username: "u", Password: func() (string, error) { return "p", nil }},
			Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil },
		}}
		cfg.setDefaults()
		dialed := make(chan *wire.Conn)
		go func() {
			w, err := wire.Dial(t.Context(), &cfg.Cluster, "broker:1")
			assert.NoError(t, err)
			dialed <- w
		}()
		key, id := next()
		require.Equal(t, int(protocol.ApiVersions), key)
		answer(id, apiVersions(protocol.Produce, 8, protocol.Metadata, 1, protocol.InitProducerId, 0,
			protocol.SaslHandshake,
			1, protocol.SaslAuthenticate, 1)...)
		key, id = next()
		require.Equal(t, int(protocol.SaslHandshake), key)
		answer(id, 0, 0, 0, 0, 0, 0)
		key, id = next()
		require.Equal(t, int(protocol.SaslAuthenticate), key)
		answer(id, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0xb8) // for 3 s: the first request is in time
		key, id = next()
		require.Equal(t, int(protocol.Metadata), key)
		answer(id, make([]byte, 12)...) // no brokers, no topics
		w := <-dialed
		c, err := newConn(w, &cfg)
		require.NoError(t, err)
		ctx, cut := context.WithCancelCause(t.Context())
		c.cut = cut
		answers := make(chan int32, 2)
		ended := make(chan error)
		go func() {
			ended <- c.run(ctx, func(r *request, _ *wire.ProduceAnswer) error { answers <- r.id; return nil })
		}()

		part := &partition{topic: &topic{name: "t"}}
		request := func() *request {
			b := newBatch(part)
			b.append(&router.Record{Value: []byte("v")}, 1, 1000)
			return &request{batches: []*batch{b}}
		}
		c.send <- request()
		_, first := next()
		require.Eventually(t, w.RenewalDue, testPatience, time.Millisecond)
		c.send <- request()
		require.NoError(t, there.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		_, err = there.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the first request is not answered yet")
		require.NoError(t, there.SetReadDeadline(time.Time{}))
		answer(first, 0, 0, 0, 0, 0, 0, 0, 0)
		key, id = next()
		require.Equal(t, int(protocol.SaslHandshake), key)
		answer(id, 0, 0, 0, 0, 0, 0)
		key, id = next()
		require.Equal(t, int(protocol.SaslAuthenticate), key)
		require.NoError(t, there.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		_, err = there.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the second request waits")
		require.NoError(t, there.SetReadDeadline(time.Time{}))
		answer(id, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xea, 0x60) // for a minute
		key, id = next()
		require.Equal(t, int(protocol.Produce), key)
		answer(id, 0, 0, 0, 0, 0, 0, 0, 0)
		require.Equal(t, int32(first), <-answers)
		require.Equal(t, int32(id), <-answers)
		require.False(t, w.RenewalDue())
		cut(nil)
		require.Error(t, <-ended)
	})
}
