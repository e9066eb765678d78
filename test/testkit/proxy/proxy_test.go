package proxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// echo starts an upstream that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	return upstream(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func upstream(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func start(t *testing.T, upstream string, protocol proxy.Protocol) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(upstream, protocol)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func say(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
	return time.Since(began)
}

func TestShape(t *testing.T) {
	text := string(bytes.Repeat([]byte("x"), 1000))
	for name, tc := range map[string]struct {
		shape proxy.Shape
		least time.Duration
	}{
		"plain":     {proxy.Shape{}, 0},
		"latency":   {proxy.Shape{Latency: 100 * time.Millisecond}, 100 * time.Millisecond},
		"bandwidth": {proxy.Shape{Bandwidth: 10000}, 100 * time.Millisecond},
		"sliced":    {proxy.Shape{Slice: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, echo(t), proxy.Raw)
			p.SetShape(proxy.Up, tc.shape)
			require.GreaterOrEqual(t, say(t, dial(t, p), text), tc.least)
		})
	}
}

func TestStallHoldsAndReleasesBytes(t *testing.T) {
	p := start(t, echo(t), proxy.Raw)
	c := dial(t, p)
	say(t, c, "one")
	p.Stall(true)
	began := time.Now()
	time.AfterFunc(100*time.Millisecond, func() { p.Stall(false) })
	say(t, c, "two")
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
}

func TestResetReachesClientAsRST(t *testing.T) {
	p := start(t, echo(t), proxy.Raw)
	c := dial(t, p)
	say(t, c, "one")
	p.Away(true)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	if refused, err := net.Dial("tcp", p.Addr()); err == nil { // the reset may come before or after connect returns
		_, err = refused.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		refused.Close()
	}
	p.Away(false)
	say(t, dial(t, p), "two")
}

func TestCutAfterPassesExactBytes(t *testing.T) {
	p := start(t, echo(t), proxy.Raw)
	c := dial(t, p)
	p.CutAfter(proxy.Up, 3)
	_, err := c.Write([]byte("abcdef"))
	require.NoError(t, err)
	_, err = io.ReadAll(c)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	say(t, dial(t, p), "it cuts once")
}

func TestEndOfOneDirection(t *testing.T) {
	p := start(t, echo(t), proxy.Raw)
	c := dial(t, p)
	_, err := c.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
}

func TestHoldProduceResponse(t *testing.T) {
	b, err := fakebroker.Start(fakebroker.Options{Topics: map[string]int32{"a": 1}})
	require.NoError(t, err)
	defer b.Close()
	p := start(t, b.Addrs()[0], proxy.Kafka)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.Addr())
		}))
	require.NoError(t, err)
	defer cl.Close()
	hold := p.HoldProduceResponse()
	acked := make(chan error, 1)
	cl.Produce(t.Context(), &kgo.Record{Topic: "a", Value: bytes.Repeat([]byte("v"), 100000)},
		func(_ *kgo.Record, err error) {
			acked <- err
		})
	require.NoError(t, hold.Wait(t.Context()))
	require.NoError(t, b.Await(t.Context(), 1, "a"))
	select {
	case err := <-acked:
		t.Fatalf("the client got an answer: %v", err)
	case <-time.After(100 * time.Millisecond): //waits:ok nothing comes while the answer is held
	}
	hold.Release()
	require.NoError(t, <-acked)
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "a"}).FirstErr(), "only one is held")
}

func TestDropStatusUpdatesDropsNothingElse(t *testing.T) {
	got := make(chan []byte, 1)
	addr := upstream(t, func(c net.Conn) {
		head := make([]byte, 8)
		_, _ = io.ReadFull(c, head) // SSLRequest
		_, _ = c.Write([]byte("N"))
		// keepalive at 42
		_, _ = c.Write(copyData([]byte("k\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x00\x00\x00\x00\x00\x00")))
		b, _ := io.ReadAll(c)
		got <- b
	})
	p := start(t, addr, proxy.Postgres)
	var seen []proxy.Status
	walEnds := make(chan uint64, 1)
	p.OnStatus(func(s proxy.Status) { seen = append(seen, s) })
	p.OnKeepalive(func(walEnd uint64) { walEnds <- walEnd })
	p.DropStatusUpdates(true)
	c := dial(t, p)
	startup := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 9), 196608)
	var sent []byte
	sent = append(sent, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 80877103)...)
	sent = append(append(sent, startup...), 0)
	status := make([]byte, 34)
	status[0], status[16] = 'r', 7
	big := copyData(bytes.Repeat([]byte("r"), 100))
	sent = append(append(sent, copyData(status)...), big...)
	_, err := c.Write(sent)
	require.NoError(t, err)
	require.EqualValues(t, 42, <-walEnds)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	require.Equal(t, append(append(startup, 0), big...), <-got)
	require.Equal(t, []proxy.Status{{Flush: 7, Dropped: true}}, seen)
}

func copyData(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{'d'}, uint32(len(body)+4)), body...)
}
