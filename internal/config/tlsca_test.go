package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRotatedCAs are used without a restart, at the brokers and at the token endpoint.
func TestRotatedCAs(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	write := func(der []byte) {
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	write(otherCA(t))
	of := TLS{Enabled: true, CA: path}
	roots := of.Roots()
	before, err := roots()
	require.NoError(t, err)
	oauth := OAuth{CA: path}
	client, err := oauth.Client()
	require.NoError(t, err)
	get := func() error {
		res, err := client.Get(server.URL)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	require.Error(t, get())

	write(server.Certificate().Raw)
	now, err := roots()
	require.NoError(t, err)
	require.False(t, now.Equal(before))
	require.NoError(t, get())
	client.CloseIdleConnections()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorContains(t, get(), "holds no certificate")
	_, err = roots()
	require.ErrorContains(t, err, "holds no certificate")
	require.Nil(t, TLS{Enabled: true}.Roots(), "the system's")
}

// otherCA is the certificate of a CA that has signed nothing.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	return der
}
