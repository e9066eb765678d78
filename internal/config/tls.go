package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/youmark/pkcs8"
)

// Build returns the TLS configuration of the connections, or nil if TLS is off. The client's certificate is
// read again for each connection, so that a rotated one is used without a restart. The CA is as of now: see Roots.
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
			pair, _, err := t.pair()
			return &pair, err
		}
	}
	return cfg, nil
}

// Roots reads the CA again for each connection; nil for the system's.
func (t TLS) Roots() func() (*x509.CertPool, error) {
	if !t.Enabled || t.CA == "" {
		return nil
	}
	return func() (*x509.CertPool, error) { return readPool(t.CA) }
}

func readPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// check reads the files once and returns the key, below the section, of the first unusable file.
func (t TLS) check() (key string, err error) {
	if t.CA != "" {
		if _, err := readPool(t.CA); err != nil {
			return "ca", err
		}
	}
	if t.Cert == "" || t.Key == "" {
		return "", nil
	}
	_, key, err = t.pair()
	return key, err
}

// errEncryptedKey is for a private key whose password is not configured.
var errEncryptedKey = errors.New("the private key is encrypted")

// pair reads the client's certificate and key. With an error it returns the key of the configuration that is wrong.
func (t TLS) pair() (_ tls.Certificate, key string, err error) {
	certificate, err := os.ReadFile(t.Cert)
	if err != nil {
		return tls.Certificate{}, "cert", err
	}
	private, err := os.ReadFile(t.Key)
	if err != nil {
		return tls.Certificate{}, "key", err
	}
	if private, key, err = t.decrypt(private); err != nil {
		return tls.Certificate{}, key, fmt.Errorf("%s: %w", t.Key, err)
	}
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		return tls.Certificate{}, "cert", err
	}
	return pair, "", nil
}

// decrypt returns the PEM text of a private key without its encryption. A key that has none stays as it is, so that
// encryption can be removed without a change of the configuration.
func (t TLS) decrypt(text []byte) (_ []byte, key string, err error) {
	const (
		keyKey      = "key"
		passwordKey = "key_password"
		encrypted   = "ENCRYPTED PRIVATE KEY" // PKCS #8
	)
	var block *pem.Block
	for rest := text; ; {
		if block, rest = pem.Decode(rest); block == nil || strings.HasSuffix(block.Type, "PRIVATE KEY") {
			break
		}
	}
	//nolint:staticcheck // insecure as encryption, and still the form of older tools
	if block == nil || block.Type != encrypted && !x509.IsEncryptedPEMBlock(block) {
		return text, "", nil
	}
	password, err := t.KeyPassword.Read()
	switch {
	case err != nil:
		return nil, passwordKey, err
	case password == "":
		return nil, keyKey, errEncryptedKey
	case block.Type == encrypted:
		private, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
		if err != nil {
			return nil, passwordKey, errors.New("the private key cannot be decrypted with this password")
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return nil, keyKey, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "", nil
	}
	der, err := x509.DecryptPEMBlock(block, []byte(password)) //nolint:staticcheck // as above
	if err != nil {
		return nil, passwordKey, errors.New("the private key cannot be decrypted with this password")
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: der}), "", nil
}
