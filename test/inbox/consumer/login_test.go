package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

// TestLogins: each mechanism logs in, asks for the secret at each connection, and a broker that refuses it is said.
func TestLogins(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	secret := func(context.Context) (string, string, error) {
		asked.Add(1)
		return "me", "secret", nil
	}
	for name, login := range map[string]consumer.Login{
		"PLAIN": consumer.Plain(secret), "SCRAM-SHA-256": consumer.ScramSHA256(secret),
		"SCRAM-SHA-512": consumer.ScramSHA512(secret), "PLAIN of one's own": ownPlain{},
	} {
		t.Run(name, func(t *testing.T) {
			mechanism := login.Mechanism()
			b := testkit.FakeBroker(t, fakebroker.Options{
				Topics: map[string]int32{topic: 1, topic + ".DLT": 1},
				More: []kfake.Opt{
					kfake.EnableSASL(), kfake.Superuser(mechanism, "me", "secret"),
					kfake.Superuser("PLAIN", "me", "secret"),
				},
			})
			producer, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...),
				kgo.SASL(plain.Auth{User: "me", Pass: "secret"}.AsMechanism()))
			require.NoError(t, err)
			defer producer.Close()
			require.NoError(t, producer.ProduceSync(t.Context(), record("k", "a")).FirstErr())
			var j journal
			stop := start(t, consumer.Options{
				Brokers: b.Addrs(), Group: "billing", Topics: []string{topic}, Login: login,
			}, func(_ context.Context, m consumer.Message) error { j.add(m); return nil })
			j.await(t, 1)
			require.NoError(t, stop())
		})
	}
	require.Greater(t, asked.Load(), int32(3))
}

// ownPlain is what a user of the package may write.
type ownPlain struct{}

func (ownPlain) Mechanism() string { return "PLAIN" }

func (ownPlain) Start(context.Context, string) ([]byte, func([]byte) ([]byte, bool, error), error) {
	return []byte("\x00me\x00secret"), func(challenge []byte) ([]byte, bool, error) {
		if len(challenge) > 0 {
			return nil, false, errors.New("PLAIN has no challenge")
		}
		return nil, true, nil
	}, nil
}

// TestIterations: a broker that says how often to hash a password is believed up to a limit.
func TestIterations(t *testing.T) {
	t.Parallel()
	secret := func(context.Context) (string, string, error) { return "u", "p", nil }
	for _, login := range []consumer.Login{consumer.ScramSHA256(secret), consumer.ScramSHA512(secret)} {
		for count, accepted := range map[string]bool{
			"4096": true, "16384": true, "1000001": false, "2000000000": false, "99999999999999999999": false,
			"0": false, "-1": false,
		} {
			first, next, err := login.Start(t.Context(), "b:9092")
			require.NoError(t, err)
			_, nonce, _ := strings.Cut(string(first), "r=")
			_, done, err := next(fmt.Appendf(nil, "r=%sx,s=c2FsdA==,i=%s", nonce, count))
			require.False(t, done)
			require.Equal(t, accepted, err == nil, "%s %s: %v", login.Mechanism(), count, err)
		}
	}
}
