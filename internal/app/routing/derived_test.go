package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func TestDerivedColumns(t *testing.T) {
	c, err := config.Load(config.Options{Environ: []string{
		"CDC_OUTBOX_KAFKA_BROKERS=k:9092", `CDC_OUTBOX_ROUTER_JSON_COLUMNS={"k": "he\"ad/a'b/c"}`,
		`CDC_OUTBOX_ROUTER_CONSTANT_COLUMNS={"kind": "o'rder"}`, "CDC_OUTBOX_ROUTER_COLUMNS_AGGREGATE_ID=k",
	}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"k": `("he""ad"::text::jsonb #>> ARRAY['a''b', 'c'])`, "kind": `'o''rder'`,
	}, Expressions(c))
	_, err = New(c, nil)
	require.NoError(t, err)
	var asked []string
	for _, n := range Needs(c) {
		asked = append(asked, n.Column)
	}
	require.Contains(t, asked, `he"ad`)
	require.NotContains(t, asked, "k")

	c.Router.JSONColumns["k"] = "headers"
	_, err = New(c, nil)
	require.Equal(t, fault.Config, fault.KindOf(err))
	require.ErrorContains(t, err, "headers/PARTITION_ID")
}
