package config

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegistry(t *testing.T) {
	file := `router:
  registry:
    url: https://registry.example.com/apis/ccompat/v7
    version_column: schema_version
    username: relay
    password: ` + canary + `
    format: protobuf
    message_indexes: 2,0
    encode: true
`
	c, err := load(t, file, nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Equal(t, "${topic}-value", c.Router.Registry.Subject)
	require.True(t, c.Router.Registry.Encode)
	y, err := c.YAML(true)
	require.NoError(t, err)
	require.NotContains(t, string(y), canary)

	c, err = load(t, strings.Replace(file, "https:", "http:", 1), nil)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "the password crosses the network in the clear")
	c, err = load(t, "router: {registry: {subject: x, version_column: v, message_indexes: 1}}", nil)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 3)
}

func TestImpossibleRegistries(t *testing.T) {
	for says, args := range map[string]string{
		"is not the address of a schema registry":  "url=registry:8081",
		"of a schema registry":                     "url=https://x/?a=b",
		"needs the schemas of router.registry.url": "encode",
		"holds a login":                            "url=https://u:p@x",
		"an id comes from one of the two":          "url=https://x schema-id-column=id",
		"must not be empty":                        "url=https://x subject=",
		"belong together":                          "url=https://x username=u",
		"is too small":                             "url=https://x refresh=1ms",
		"is not https while":                       "url=http://x tls-enabled=true",
		"set router.registry.tls.enabled to true":  "url=https://x tls-ca=/x",
		"/nowhere":                                 "url=https://x tls-enabled=true tls-ca=/nowhere",
	} {
		var flags []string
		for _, one := range strings.Fields(args) {
			flags = append(flags, "--router-registry-"+one)
		}
		_, err := load(t, "", nil, flags...)
		require.ErrorContains(t, err, says)
	}
}

// The authorities are read again for each connection.
func TestRegistryClient(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write := func() {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		require.NoError(t, os.WriteFile(ca, text, 0o600))
	}
	write()
	g := Registry{TLS: TLS{Enabled: true, CA: ca}}
	client, err := g.Client()
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	require.NoError(t, os.Remove(ca))
	_, err = client.Get(s.URL) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "ca.pem")
	write()
	resp, err := client.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	plain, err := (&Registry{}).Client()
	require.NoError(t, err)
	_, err = plain.Get(s.URL) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "certificate", "the authorities of the system")
}
