package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEncryptedKey: keys of OpenSSL 3, whose password is "right": `openssl pkcs8 -topk8` with -v2 aes-256-cbc and with
// -scrypt, and `openssl ec -aes256`, which encrypts PEM the older way.
func TestEncryptedKey(t *testing.T) {
	const dir = "testdata/tls/"
	args := func(key string, more ...string) []string {
		return append([]string{
			"--kafka-tls-enabled=true", "--kafka-tls-cert=" + dir + "cert.pem", "--kafka-tls-key=" + key,
		}, more...)
	}
	for _, name := range []string{"pkcs8-pbkdf2.pem", "pkcs8-scrypt.pem", "legacy.pem"} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "", nil, args(dir+name, "--kafka-tls-key-password=right")...)
			require.NoError(t, err)
			conf, err := c.Kafka.TLS.Build()
			require.NoError(t, err)
			pair, err := conf.GetClientCertificate(&tls.CertificateRequestInfo{})
			require.NoError(t, err)
			require.NotNil(t, pair.PrivateKey)

			_, err = load(t, "", nil, args(dir+name, "--kafka-tls-key-password="+canary)...)
			require.ErrorContains(t, err, "kafka.tls.key_password")
			require.ErrorContains(t, err, "cannot be decrypted with this password")
			require.NotContains(t, err.Error(), canary)
			_, err = load(t, "", nil, args(dir+name)...)
			require.ErrorContains(t, err, "is encrypted; set kafka.tls.key_password")
		})
	}
	t.Run("encryption is removed", func(t *testing.T) {
		c, err := load(t, "", nil, args(dir+"legacy.pem", "--kafka-tls-key-password=right")...)
		require.NoError(t, err)
		encrypted, err := os.ReadFile(dir + "legacy.pem")
		require.NoError(t, err)
		plain, _, err := c.Kafka.TLS.decrypt(encrypted)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(path, plain, 0o600))
		_, err = load(t, "", nil, args(path, "--kafka-tls-key-password=right")...)
		require.NoError(t, err, "so the password may be removed afterwards")
	})
	_, err := load(t, "", nil, "--kafka-tls-key-password=right")
	require.ErrorContains(t, err, "kafka.tls.key_password", "without TLS")
}
