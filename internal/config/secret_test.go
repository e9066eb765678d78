package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const canary = "hunter2canary"

func TestSecretCannotBePrinted(t *testing.T) {
	c := Config{Postgres: Postgres{DSN: newSecret(canary)}, Kafka: Kafka{SASL: SASL{Password: newSecret(canary)}}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, c), canary, verb)
		require.NotContains(t, fmt.Sprintf(verb, &c), canary, verb)
		require.NotContains(t, fmt.Sprintf(verb, c.Postgres.DSN), canary, verb)
	}
	j, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(j), canary)
	y, err := yaml.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(y), canary)
	text, err := c.Postgres.DSN.Read()
	require.NoError(t, err)
	require.Equal(t, canary, text)
}

func TestSecretForms(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	write := func(s string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
	write("one\n")
	s := newSecret("@" + path)
	got, err := s.Read()
	require.NoError(t, err)
	require.Equal(t, "one", got)
	write("two\r\n")
	got, err = s.Read()
	require.NoError(t, err)
	require.Equal(t, "two", got, "a rotated secret is seen")
	write("\n")
	_, err = s.Read()
	require.ErrorContains(t, err, "is empty")
	require.NoError(t, os.Remove(path))
	_, err = s.Read()
	require.ErrorIs(t, err, os.ErrNotExist)

	for in, want := range map[string]string{"@@home": "@home", "plain": "plain", "": "", "@": "@"} {
		got, err := newSecret(in).Read()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.False(t, newSecret("").IsSet())
}

// Bug (configuration): A `_FILE` variable whose path begins with `@` made the path the secret. Cost: a login refused
// without a hint.
func TestSecretsFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(path, []byte("host=db password="+canary+"\n"), 0o600))
	for name, from := range map[string]func() (*Loaded, error){
		"_FILE": func() (*Loaded, error) { return load(t, "", []string{"CDC_OUTBOX_POSTGRES_DSN_FILE=" + path}) },
		"@":     func() (*Loaded, error) { return load(t, "", []string{"CDC_OUTBOX_POSTGRES_DSN=@" + path}) },
		"flag":  func() (*Loaded, error) { return load(t, "", nil, "--postgres-dsn=@"+path) },
		"file":  func() (*Loaded, error) { return load(t, "postgres: {dsn: '@"+path+"'}", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := from()
			require.NoError(t, err)
			dsn, err := c.Postgres.DSN.Read()
			require.NoError(t, err)
			require.Equal(t, "host=db password="+canary, dsn)
			y, err := c.YAML(true)
			require.NoError(t, err)
			require.Contains(t, string(y), "@"+path)
			require.NotContains(t, string(y), canary)
		})
	}
	_, err := load(t, "", []string{"CDC_OUTBOX_POSTGRES_DSN=x", "CDC_OUTBOX_POSTGRES_DSN_FILE=" + path})
	require.ErrorContains(t, err, "is set together with CDC_OUTBOX_POSTGRES_DSN")
	_, err = load(t, "", []string{"CDC_OUTBOX_POSTGRES_SLOT_FILE=" + path})
	require.ErrorContains(t, err, "unknown variable", "only secrets are read from files")
	_, err = load(t, "", []string{"CDC_OUTBOX_POSTGRES_DSN_FILE=/nowhere/dsn"})
	require.ErrorContains(t, err, "postgres.dsn (CDC_OUTBOX_POSTGRES_DSN_FILE): cannot be read: open /nowhere/dsn")
	_, err = load(t, "", []string{"CDC_OUTBOX_MONITOR_WEBHOOK_FILE=@/nowhere/url"})
	require.ErrorContains(t, err, "open ./@/nowhere/url", "it is a name, and not a secret that begins with @")
}

// However a configuration is wrong, what may be a secret stays out of the message.
//
// Bug (configuration): A refused address was shown with its user, password and query. Cost: a password in an error.
func TestErrorsHoldNoSecrets(t *testing.T) {
	for name, from := range map[string]func() (*Loaded, error){
		"misspelled key": func() (*Loaded, error) { return load(t, "kafka: {sasl: {pasword: "+canary+"}}", nil) },
		"misspelled variable": func() (*Loaded, error) {
			return load(t, "", []string{"CDC_OUTBOX_KAFKA_SASL_PASWORD=" + canary})
		},
		"yaml alias": func() (*Loaded, error) { return load(t, "kafka: {sasl: {password: *"+canary+"}}", nil) },
		"yaml tag": func() (*Loaded, error) {
			return load(t, "kafka:\n  sasl:\n    password: !<"+canary+"\n", nil)
		},
		"yaml quoted key": func() (*Loaded, error) { return load(t, "? \"\npassword: "+canary+"\n\"\n: x\n", nil) },
		"yaml quote": func() (*Loaded, error) {
			return load(t, "kafka:\n  sasl:\n    password: \""+canary+"\n  x\n", nil)
		},
		"section as secret": func() (*Loaded, error) { return load(t, "postgres: {dsn: {"+canary+": 1}}", nil) },
		"mechanism missing": func() (*Loaded, error) { return load(t, "", nil, "--kafka-sasl-password="+canary) },
		"refused webhook":   func() (*Loaded, error) { return load(t, "", nil, "--monitor-webhook=ftp://x/"+canary) },
		"twice": func() (*Loaded, error) {
			return load(t, "", []string{"CDC_OUTBOX_POSTGRES_DSN=" + canary, "CDC_OUTBOX_POSTGRES_DSN_FILE=/x"})
		},
		"with others": func() (*Loaded, error) { return load(t, "", nil, "--postgres-dsn="+canary, "--log-level=x") },
		"password of an address": func() (*Loaded, error) {
			return load(t, "", nil, "--kafka-sasl-mechanism=OAUTHBEARER", "--kafka-sasl-oauth-client-id=x",
				"--kafka-sasl-oauth-client-secret=y", "--kafka-sasl-oauth-token-url=https://u:"+canary+"@host/token")
		},
		"query of an address": func() (*Loaded, error) {
			return load(t, "", nil, "--monitor-runbook-url=https://host/?key="+canary+"#x")
		},
		"password of a broker": func() (*Loaded, error) {
			return load(t, "", nil, "--kafka-brokers=a:1,u:"+canary+"@host:9092")
		},
		"refused by a check": func() (*Loaded, error) {
			return Load(Options{
				Environ: []string{"CDC_OUTBOX_TRACES_ENDPOINT=https://u:" + canary + "@host"},
				Checks: map[string]func(string) error{
					"traces.endpoint": func(string) error { return errors.New("has a password") },
				},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := from()
			require.Error(t, err)
			require.NotContains(t, err.Error(), canary)
			require.NotContains(t, fmt.Sprintf("%+v", err), canary)
		})
	}
}

// TestWithoutCredentials: of an address, everything else is shown.
func TestWithoutCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "a@b": "a@b", "h:1,h:2": "h:1,h:2", "u:p@h:1": "***@h:1",
		"https://h/p": "https://h/p", "https://u@h/p": "https://***@h/p", "https://u:p/q?@h/p": "https://***@h/p",
		"https://h/p?key=k": "https://h/p?***", "https://h/p#f": "https://h/p#***", "x://a@b?c@d": "x://***@d",
	} {
		require.Equal(t, want, withoutCredentials(text))
	}
}

// FuzzFile: whatever the file holds, it is read without a panic, and the password in it does not get into the error.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"postgres: {slot: X}", "kafka:\n  brokers: [a]\n", "a: &a [*a]", "log: !!binary x", "- x", "\t",
		"? {a: b}\n: c", "--- |\n",
	} {
		f.Add(seed, "")
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(before+"\npostgres: {dsn: "+canary+"}\n"+after), 0o600))
		_, err := Load(Options{Environ: []string{"CDC_OUTBOX_CONFIG=" + path}})
		if err != nil {
			require.NotContains(t, err.Error(), canary)
		}
	})
}

// Bug (configuration): A no-break space, vertical tab or form feed in front of `password=` hid the keyword. Cost: a
// password in the output of `config`, and in errors as the name of a host. Also: `TestCheckDSN` in `internal/postgres`.
func TestRedactDSN(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"postgres://u:" + canary + "@h:5432/db?sslmode=disable": "postgres://u:***@h:5432/db?sslmode=disable",
		"postgresql://u:" + canary + "@h1:5432,h2:5433/db":      "postgresql://u:***@h1:5432,h2:5433/db",
		"postgres://u@h/db?password=" + canary:                  "postgres://u@h/db?password=***",
		"postgres://u:p@" + canary + "@h/db":                    "postgres://u:***@h/db",
		"postgres://h/db":                                       "postgres://h/db",
		"postgres:///db?host=/run/postgresql":                   "postgres:///db?host=/run/postgresql",
		"postgres://u:x@[::1]:5432/db":                          "postgres://u:***@[::1]:5432/db",
		"postgres://u:1/" + canary + "@h/db":                    masked,
		"postgres://u:1#" + canary + "@h/db":                    masked,
		"postgres://u:1?" + canary + "@h/db":                    masked,
		"postgres://u:" + canary + "/db":                        masked,
		"postgres://u:x@h/db?pasword=" + canary:                 masked,
		"postgres://u:x@h/db?password=a&" + canary:              masked,
		"postgres://u:%zz" + canary + "@h/db":                   "postgres://u:***@h/db",
		"mysql://u:" + canary + "@h/db":                         masked,
		"host=h user=u password=" + canary + " dbname=d":        "host=h user=u password=*** dbname=d",
		"host=h password='a " + canary + `\' b' dbname=d`:       "host=h password=*** dbname=d",
		"host = h password = " + canary:                         "host=h password=***",
		"host=h password=a " + canary:                           masked,
		"host=h password=a " + canary + "=b user=x":             masked,
		"host=h password='" + canary:                            masked,
		"password=a\\ " + canary + " host=h":                    "password=*** host=h",
		canary:                                                  masked,
		"host=h\vpassword=" + canary:                            "host=h password=***",
		"host=h\u00a0password=" + canary:                        masked,
		"user='u password = " + canary + "'":                    masked,
		"host=h passfile=/run/password":                         "host=h passfile=/run/password",
	} {
		got := redactDSN(in)
		require.Equal(t, want, got, in)
		require.NotContains(t, got, canary)
	}
}

func FuzzRedactDSN(f *testing.F) {
	f.Add("u", canary, "h", "db")
	f.Fuzz(func(_ *testing.T, user, password, host, db string) {
		for _, dsn := range []string{
			"postgres://" + user + ":" + password + "@" + host + "/" + db,
			"host=" + host + " password=" + password + " dbname=" + db,
		} {
			_ = redactDSN(dsn) // must not panic whatever it is given
		}
	})
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "1": 1, "32MiB": 32 << 20, "32 mib": 32 << 20, "10GB": 1e10, "1kB": 1000, "3TiB": 3 << 40, "7B": 7,
	} {
		got, err := parseSize(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "MiB", "-1", "1.5GiB", "1 PiB", "9999999999GiB", "1GiB2", "0x10"} {
		_, err := parseSize(in)
		require.Error(t, err, in)
	}
	for want, s := range map[string]Size{
		"0B": 0, "1B": 1, "1KiB": 1024, "1000B": 1000, "32MiB": 32 << 20, "10GiB": 10 << 30,
	} {
		require.Equal(t, want, s.String())
	}
}
