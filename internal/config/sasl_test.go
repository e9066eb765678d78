package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenEndpoint is a whole section.
func TestTokenEndpoint(t *testing.T) {
	file := `kafka:
  tls: {enabled: true}
  sasl:
    mechanism: OAUTHBEARER
    oauth:
      token_url: https://login.example.com/token
      client_id: relay
      client_secret: ` + canary + `
      scopes: [a, b]
      audience: kafka
      extensions: {logicalCluster: lkc-1, identityPoolId: pool-1}
`
	c, err := load(t, file, nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	o := &c.Kafka.SASL.OAuth
	require.Equal(t, []string{"a", "b"}, o.Scopes)
	require.Equal(t, map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}, o.Extensions)
	client, err := o.Client()
	require.NoError(t, err)
	require.Nil(t, client)
	y, err := c.YAML(true)
	require.NoError(t, err)
	require.NotContains(t, string(y), canary)

	c, err = load(t, strings.NewReplacer("https:", "http:", "enabled: true", "enabled: false").Replace(file), nil)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 2, "token and secret cross the network in the clear")
}

// TestImpossibleLogins are refused, all at once, with the key that has no use.
func TestImpossibleLogins(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("t\n"), 0o600))
	const endpoint = "mechanism=OAUTHBEARER oauth-token-url=https://x/"
	for says, args := range map[string]string{
		"is empty, and so is kafka.":                      "mechanism=OAUTHBEARER",
		"client_id = \"\": is empty; ":                    endpoint,
		"client_secret: is empty; ":                       endpoint,
		"is not the address of a token endpoint":          "mechanism=OAUTHBEARER oauth-token-url=ftp://x/",
		"is set together with":                            endpoint + " oauth-token-file=" + token,
		"oauth.token_file = \"/nowhere\"":                 "mechanism=OAUTHBEARER oauth-token-file=/nowhere",
		"names an extension auth":                         `mechanism=OAUTHBEARER oauth-extensions={"auth":"x"}`,
		"a name has letters only":                         `mechanism=OAUTHBEARER oauth-extensions={"a-b":"x"}`,
		"not printable ASCII":                             `mechanism=OAUTHBEARER oauth-extensions={"a":"é"}`,
		"it belongs to PLAIN":                             "mechanism=OAUTHBEARER username=u",
		"it belongs to OAUTHBEARER":                       "mechanism=PLAIN oauth-scopes=a",
		"it belongs to AWS_MSK_IAM":                       "mechanism=PLAIN aws-region=r",
		"is set while kafka.sasl.mechanism is empty":      "aws-region=r",
		"AWS_MSK_IAM needs kafka.tls.enabled":             "mechanism=AWS_MSK_IAM",
		"is not the ARN of a role":                        "mechanism=AWS_MSK_IAM aws-role-arn=writer",
		"external_id = \"x\" (--kafka-sasl-aws-external-": "mechanism=AWS_MSK_IAM aws-external-id=x",
		"is not a known value":                            "mechanism=GSSAPI",
	} {
		var flags []string
		for arg := range strings.SplitSeq(args, " ") {
			flags = append(flags, "--kafka-sasl-"+arg)
		}
		_, err := load(t, "", nil, flags...)
		require.ErrorContains(t, err, says, args)
	}
	c, err := load(t, "", nil, "--kafka-sasl-mechanism=OAUTHBEARER", "--kafka-sasl-oauth-token-file="+token)
	require.NoError(t, err)
	text, err := c.Kafka.SASL.OAuth.Token().Read()
	require.NoError(t, err)
	require.Equal(t, "t", text)
	_, err = load(t, "", nil, "--kafka-sasl-mechanism=AWS_MSK_IAM", "--kafka-tls-enabled=true",
		"--kafka-client-id=a\x01")
	require.ErrorContains(t, err, "kafka.client_id")
}

// TestPasswordSources: one password has one source.
func TestPasswordSources(t *testing.T) {
	c, err := load(t, `postgres: {dsn: "host=h", password_command: [token, --for, "a,b"], password_timeout: 3s}`, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"token", "--for", "a,b"}, c.Postgres.PasswordCommand)
	for says, file := range map[string]string{
		"a password comes from one of the two": "{password_command: [a], password_file: /x}",
		"holds a password, and so does postgres.password_file": `{dsn: "host=h password=` + canary +
			`", password_file: /x}`,
		"take the password out of the connection string": `{dsn: "postgres://u:` + canary +
			`@h/d", password_command: [a]}`,
		"names no program": "{password_command: [\"\", a]}",
		"is too small":     "{password_timeout: 1ms}",
	} {
		_, err := load(t, "postgres: "+file, nil)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), canary)
	}
}
