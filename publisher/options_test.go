package publisher

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// Bug (configuration): `postgres.decisions` was not checked as a name. Cost: a publisher ignored `pause`.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     Options
		wants []string
	}{
		{"a key that does not exist", Options{
			Brokers: []string{"k:1"}, Settings: map[string]string{"kafka.acks": "1", "router.topics": "x"},
		}, []string{"kafka.acks", "did you mean router.topic?"}},
		{"several", Options{
			Brokers: []string{"k:1"}, Tables: []string{"a b"}, Topic: "${",
			Settings: map[string]string{"polling.workers": "none", "postgres.decisions": "a.b.c"},
		}, []string{"postgres.tables", "router.topic", "polling.workers", "postgres.decisions"}},
		{"a password in the text", Options{DSN: "postgres://u:geheim@h:x/d"}, []string{"postgres.dsn"}},
		{"a file that does not exist", Options{Brokers: []string{"k:1"}, File: "/none.yaml"}, []string{"/none.yaml"}},
		{"what only the log has", Options{
			Brokers: []string{"k:1"}, Settings: map[string]string{"delivery": "exactly_once"},
		}, []string{"delivery"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.o)
			for _, want := range c.wants {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "geheim")
		})
	}
}

// A file may be that of the program; the fields go before it, and the settings before the fields.
func TestOptionsOverAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
source: wal
postgres: {tables: [from.file]}
kafka: {brokers: ["file:1"]}
http: {listen: "0.0.0.0:9090"}
`), 0o600))
	t.Setenv("CDC_OUTBOX_KAFKA_BROKERS", "variable:1")
	o := Options{File: file}
	c, err := o.load()
	require.NoError(t, err)
	require.Equal(t, []string{"file:1"}, c.Kafka.Brokers)
	require.Equal(t, []string{"from.file"}, c.Postgres.Tables)
	o.Tables, o.Brokers = []string{"from.field"}, []string{"field:1"}
	o.Settings = map[string]string{"kafka.brokers": "setting:1"}
	c, err = o.load()
	require.NoError(t, err)
	require.Equal(t, []string{"setting:1"}, c.Kafka.Brokers)
	require.Equal(t, []string{"from.field"}, c.Postgres.Tables)
}

func TestLog(t *testing.T) {
	var b bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})).With("service", "orders")}
	l := o.logger()
	l.Debug("not wanted")
	l = l.With(zap.Int("rows", 3))
	l.Warn("slow", zap.String("table", "public.outbox"), zap.Strings("commands", []string{"a b", "c"}))
	l.Error("bad", zap.Error(errors.New("no")))
	require.Equal(t, `level=WARN msg=slow service=orders rows=3 table=public.outbox commands="[a b c]"
level=ERROR msg=bad service=orders rows=3 error=no
`, b.String())
}
