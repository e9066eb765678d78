package main

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func TestGenerated(t *testing.T) {
	files, err := generated("..")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for path, want := range files {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale; run: go generate ./internal/config", path)
	}
	for _, f := range config.Fields() {
		require.NotEmpty(t, f.Doc, f.Key)
		require.True(t, strings.HasSuffix(f.Doc, "."), f.Key)
		require.NotContains(t, f.Doc, "`", f.Key)
	}
}

func TestReferenceExample(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	server.Close()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"cdc-outbox-dsn": "postgres://u:p@h/d", "kafka-password": "secret", "ca.pem": string(ca),
		"cdc.yaml": strings.NewReplacer("/run/secrets/", dir+"/", "/etc/kafka/", dir+"/").Replace(exampleFile),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	c, err := config.Load(config.Options{Environ: []string{"CDC_OUTBOX_CONFIG=" + filepath.Join(dir, "cdc.yaml")}})
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "http.listen", "which the example's comment says, too")
	require.Equal(t, "SCRAM-SHA-512", c.Kafka.SASL.Mechanism)
}

func TestWrap(t *testing.T) {
	require.Equal(t, "one two\nthree\nfour", wrap("one two three four", "", 8))
	require.Equal(t, "  - one\n    two\n    three", wrap("  - one two three", "    ", 9))
	require.Equal(t, "äöü äöü", wrap("äöü äöü", "", 7), "characters count, not bytes")
}
