package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/debezium/migrate"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// workerFile is the Connect worker's: its converters hold where a connector names none.
const workerFile = `bootstrap.servers=127.0.0.1:9092
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
`

// undecided is the list in a configuration that keeps it from loading before an operator has decided each of its
// entries.
var undecided = regexp.MustCompile(`(?m)^undecided:\n(?:  +- .*\n)*`)

// newRouter migrates as an operator who leaves Debezium does: the connector's JSON is migrated, the configuration
// loaded, and the router built from it as the program does. A converter's option that migrate leaves to a person to
// settle counts as refused; what else it leaves (tracing, updates) changes no record.
func newRouter(t *testing.T, c *testCase, dsn string) (router.Router, error) {
	t.Helper()
	input, err := migrate.Parse(c.connector)
	require.NoError(t, err, c.name)
	require.NoError(t, input.Worker([]byte(workerFile)))
	report := migrate.Translate(input, "")
	for _, e := range report.Options {
		switch {
		case e.Verdict == migrate.Refused, e.Verdict == migrate.Unknown, e.Verdict == migrate.Decide &&
			strings.Contains(e.Option, ".converter."):
			return nil, fmt.Errorf("migrate, option %s", e.Option) // the note is prose that others improve
		}
	}
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(path, undecided.ReplaceAll([]byte(report.Config), nil), 0o600))
	loaded, err := config.Load(config.Options{
		Environ: []string{"CDC_OUTBOX_CONFIG=" + path, "CDC_OUTBOX_POSTGRES_DSN=" + dsn},
	})
	if err != nil {
		return nil, err
	}
	return routing.New(loaded, nil)
}
