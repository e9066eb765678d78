package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Build returns the TLS configuration of the connections to Kafka, or nil if TLS is off. The client's certificate is
// read again for each connection, so that a rotated one is used without a restart.
func (t TLS) Build() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // set in the configuration on purpose, with a warning
	}
	if t.CA != "" {
		pool, err := readPool(t.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	if t.Cert != "" {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &pair, err
		}
	}
	return cfg, nil
}

func readPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// check reads the files once and returns the key of the first unusable file.
func (t TLS) check() (key string, err error) {
	if t.CA != "" {
		if _, err := readPool(t.CA); err != nil {
			return "kafka.tls.ca", err
		}
	}
	if t.Cert == "" || t.Key == "" {
		return "", nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) && pe.Path == t.Key {
			return "kafka.tls.key", err
		}
		return "kafka.tls.cert", err
	}
	return "", nil
}
