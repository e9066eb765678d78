package debezium

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestFitsDoesNotStandInForPrepare: the stream asks whether a table is an outbox before its first row is prepared for.
func TestFitsDoesNotStandInForPrepare(t *testing.T) {
	asked := 0
	r := debeziumRouter(t, func(cfg *Config) {
		cfg.ValueConverter = converterJSONSchema
		cfg.Catalog = func(*pgoutput.Relation) (router.Catalog, error) {
			asked++
			return router.Catalog{}, nil
		}
	})
	rel := &pgoutput.Relation{OID: 1, Namespace: "public", Name: "t", Columns: []pgoutput.Column{{Name: "id"}}}
	require.False(t, r.Fits(rel))
	require.NoError(t, r.Prepare(rel))
	require.Equal(t, 1, asked)
	require.False(t, r.Fits(rel))
}
