package wire

import (
	"bytes"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/stretchr/testify/require"
)

// A listener without SASL answers the handshake with ILLEGAL_SASL_STATE and no mechanisms.
func TestSASLWhereTheListenerHasNone(t *testing.T) {
	w := newWire(nil, "broker:9092", "c")
	w.sasl = &SASL{Mechanism: "PLAIN", Username: "u", Password: func() (string, error) { return "p", nil }}
	err := w.Authenticate(t.Context(), func(protocol.Message) (protocol.Message, error) {
		return &saslhandshake.Response{ErrorCode: 34}, nil
	})
	require.ErrorContains(t, err, "broker:9092 does no SASL")
}

// Bug (producer, race): The first answer of a connection, from any program that listens there, was decoded with the
// number of entries it claimed. Cost: ten bytes made the process request 12 GB.
func TestForeignAnswers(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\n\r\n",
		"\x15\x03\x01\x00\x02\x02\x0a\x00",
		"\x7f\xff\xff\xff\x00\x00\x00\x01",
		"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff", // an array of 2^31-1 entries
		"\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00", // another connection's answer
		"\x00\x00",
		"",
	} {
		a, b := net.Pipe()
		w := newWire(a, "test", "c")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() {
			_, _ = io.CopyN(io.Discard, b, 4)
			_, _ = io.Copy(b, bytes.NewReader([]byte(answer)))
			_ = b.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		err := w.negotiate(200 * time.Millisecond)
		require.Error(t, err, "%q", answer)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "%q", answer)
		_ = a.Close()
	}
}

// Bug (configuration): The share of a token's life overflowed. Cost: a token that is good for years was fetched again
// at each login, or each second. Also: `TestShortTokens` in `internal/sink/kafka/token`.
func TestRenewal(t *testing.T) {
	require.True(t, renewal(0).IsZero())
	for _, years := range []int64{1, 4, 5, 10, 73, 292, 1000, 8000, 1_000_000, math.MaxInt64 / 365 / 86_400_000} {
		w := &Conn{}
		w.renewFor(years * 365 * 86_400_000)
		require.Greater(t, time.Until(w.renewAt), 300*24*time.Hour, "%d years", years)
		require.Greater(t, time.Until(w.renewBy), 300*24*time.Hour, "%d years", years)
	}
	for range 1000 {
		now := time.Now()
		require.InDelta(t, time.Hour*875/1000, renewal(time.Hour).Sub(now), float64(time.Hour*26/1000))
		require.Greater(t, renewal(500*time.Millisecond).Sub(now), time.Second, "not within a second of the last")
	}
}
