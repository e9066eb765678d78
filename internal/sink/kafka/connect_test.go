package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestSASL: Kafka prepares no password (ScramFormatter.normalize).
//
// Bug (configuration): kafka-go prepares a password for SCRAM, and Kafka does not. Cost: a password with ² or µ was
// refused by every broker.
func TestSASL(t *testing.T) {
	const right = "righ² µﬁ"
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(),
					kfake.Superuser(mechanism, "user", right))
				var password atomic.Value
				password.Store("wrong")
				p, acked := bare(t, Config{Cluster: wire.Cluster{
					Brokers: c.ListenAddrs(), Dial: dial,
					SASL: &wire.SASL{
						Mechanism: mechanism, Username: "user",
						Password: func() (string, error) { return password.Load().(string), nil },
					},
				}})
				done := make(chan error)
				go func() {
					err := p.Produce(context.Background(), &router.Record{Topic: "t", Value: []byte("v")}, 1)
					p.Flush()
					done <- err
				}()
				require.Eventually(t, func() bool {
					ts := p.Trouble()
					return len(ts) > 0 && ts[0].Kind == sink.NotAuthenticated
				}, testPatience, time.Millisecond)
				require.NotContains(t, fmt.Sprint(p.Trouble()), "wrong", "no password in what operators read")
				password.Store(right) // rotated: seen at the next connect
				require.NoError(t, <-done)
				require.NoError(t, p.Drain(t.Context()))
				require.Equal(t, int32(1), acked.Load())
				require.Empty(t, p.Trouble())
			})
		})
	}
}

// bare runs a producer without the rig, whose check would need credentials too.
func bare(t *testing.T, cfg Config) (*Producer, *atomic.Int32) {
	t.Helper()
	var acked atomic.Int32
	cfg.Acked = func(d sink.Delivery) { acked.Add(int32(len(d.Tickets))) }
	cfg.pace = quickPace()
	p, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return p, &acked
}

func certificate(t *testing.T, host string, from, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(crand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

func TestTLS(t *testing.T) {
	hour := time.Hour
	good, pool := certificate(t, "127.0.0.1", time.Now().Add(-hour), time.Now().Add(hour))
	c := newCluster(t, kfake.SeedTopics(3, "t"), overTCP, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{good}}))
	p, acked := bare(t, Config{
		Cluster:     wire.Cluster{Brokers: c.ListenAddrs(), TLS: &tls.Config{RootCAs: pool}},
		Compression: "lz4",
	})
	for i := range 2000 {
		require.NoError(t, p.Produce(t.Context(), &router.Record{
			Topic: "t", Partition: -1, Key: []byte{byte(i)},
			Value: make([]byte, 300),
		}, 1))
	}
	require.NoError(t, p.Drain(t.Context()))
	require.Equal(t, int32(2000), acked.Load())
}

func TestTLSRefused(t *testing.T) {
	hour := time.Hour
	good, pool := certificate(t, "127.0.0.1", time.Now().Add(-hour), time.Now().Add(hour))
	expired, expiredPool := certificate(t, "127.0.0.1", time.Now().Add(-2*hour), time.Now().Add(-hour))
	foreign, foreignPool := certificate(t, "kafka.example.org", time.Now().Add(-hour), time.Now().Add(hour))
	for name, test := range map[string]struct {
		server tls.Certificate
		trust  *x509.CertPool
		remedy string
	}{
		"unknown CA": {good, foreignPool, "CA"},
		"expired":    {expired, expiredPool, "Renew"},
		"wrong host": {foreign, foreignPool, "advertised.listeners"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, overTCP, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{test.server}}))
			cfg := wire.Cluster{Brokers: c.ListenAddrs(), TLS: &tls.Config{RootCAs: test.trust}}
			cfg.SetDefaults()
			_, err := wire.Dial(t.Context(), &cfg, c.ListenAddrs()[0])
			var de *wire.DialError
			require.ErrorAs(t, err, &de)
			require.Equal(t, sink.NotAuthenticated, de.Kind)
			require.Contains(t, de.Remedy, test.remedy)
		})
	}
	_ = pool
}

// Bug (producer): the brokers' CA was read once, their clients' certificates at each connect. Cost: after a rotation
// by a bundle the relay refused every broker with a new certificate, the remedy named the file that was right, and
// `check`, a fresh process, found nothing.
func TestRotatedCA(t *testing.T) {
	hour := time.Hour
	good, pool := certificate(t, "127.0.0.1", time.Now().Add(-hour), time.Now().Add(hour))
	_, before := certificate(t, "127.0.0.1", time.Now().Add(-hour), time.Now().Add(hour))
	c := newCluster(t, overTCP, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{good}}))
	read := func() (*x509.CertPool, error) { return nil, errors.New("no such file") }
	cfg := wire.Cluster{
		Brokers: c.ListenAddrs(), TLS: &tls.Config{}, Roots: func() (*x509.CertPool, error) { return read() },
	}
	cfg.SetDefaults()
	refused := func(says string) {
		t.Helper()
		_, err := wire.Dial(t.Context(), &cfg, c.ListenAddrs()[0])
		var de *wire.DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, sink.NotAuthenticated, de.Kind)
		require.Contains(t, de.Remedy, says)
	}
	refused("at kafka.tls.ca")
	read = func() (*x509.CertPool, error) { return before, nil }
	refused("Give the CA")
	read = func() (*x509.CertPool, error) { return pool, nil }
	w, err := wire.Dial(t.Context(), &cfg, c.ListenAddrs()[0])
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// TestPlainAgainstTLS: a port that speaks something else is named for what it is, without allocating what its first
// bytes say.
func TestPlainAgainstTLS(t *testing.T) {
	good, _ := certificate(t, "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	c := newCluster(t, overTCP, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{good}}))
	cfg := wire.Cluster{Brokers: c.ListenAddrs(), DialTimeout: 2 * time.Second}
	cfg.SetDefaults()
	_, err := wire.Dial(t.Context(), &cfg, c.ListenAddrs()[0])
	var de *wire.DialError
	require.ErrorAs(t, err, &de)
	require.Contains(t, de.Remedy, "TLS")
}

func TestConfigErrors(t *testing.T) {
	_, err := New(Config{
		Cluster:     wire.Cluster{Brokers: []string{"nohost"}, SASL: &wire.SASL{Mechanism: "GSSAPI"}},
		Compression: "brotli",
	})
	require.Equal(t, fault.Config, fault.KindOf(err))
	for _, part := range []string{"nohost", "brotli", "GSSAPI"} {
		require.ErrorContains(t, err, part, "all at once")
	}
	_, err = New(Config{Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}}})
	require.ErrorContains(t, err, "no broker")
	var fe *fault.Error
	require.True(t, errors.As(err, &fe))
	require.NotEmpty(t, fe.Next)
}
