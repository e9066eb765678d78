package replication

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/stretchr/testify/require"
)

// TestRunOverTLS: a record of TLS is a row, so what piles up in the socket is read below TLS.
func TestRunOverTLS(t *testing.T) {
	var pieces [][]byte
	for at := lsn.LSN(100); at < 5100; at++ {
		pieces = append(pieces, commitAt(at))
	}
	large := append(commitAt(5100), xlogData(1, append([]byte{'~'}, make([]byte, 2*frameBuffer)...)...)...)
	w := newWalsender(t, visit{stream: commitAt(99), pieces: append(pieces, large, commitAt(5101))})
	w.tls = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	cfg := w.config(nothingConfirmed)
	plain := cfg.DSN
	cfg.DSN = func() (string, error) {
		dsn, err := plain()
		return strings.Replace(dsn, "sslmode=disable", "sslmode=require", 1), err
	}
	var last lsn.LSN
	err := Run(t.Context(), cfg, func(_ context.Context, s *Stream) error {
		require.IsType(t, &tls.Conn{}, s.conn)
		for last < 5101 {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			if m.Kind == pgoutput.KindCommit {
				require.Equal(t, max(last+1, 99), m.Commit.EndLSN)
				last = m.Commit.EndLSN
			}
		}
		return nil
	})
	require.NoError(t, err)
}

func selfSigned(t testing.TB) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
