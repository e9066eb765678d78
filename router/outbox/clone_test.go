package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

// A clone holds its own, whatever the next rows overwrite: the router's buffers and the row itself.
func TestCloneOutlivesTheNextRow(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"payload":             func(*Config) {},
		"several key columns": func(c *Config) { c.KeyColumns = []string{"event_type", "aggregate_id"} },
		"envelope":            func(c *Config) { c.Format = FormatEnvelope },
		"cloudevents":         func(c *Config) { c.Format = FormatCloudEventsBinary },
	} {
		t.Run(name, func(t *testing.T) {
			r := formatRouter(t, change)
			route := func(row pgoutput.Tuple) *router.Record {
				rec, err := r.Route(wideRelation(), row, rowtest.Source)
				require.NoError(t, err)
				return rec
			}
			row := wideRow("eu", "1")
			kept := route(row).Clone()
			for i := range row { // the connection reads the next one into the same memory
				for j := range row[i].Data {
					row[i].Data[j] = 'x'
				}
			}
			route(wideRow("us", "2"))
			require.Equal(t, route(wideRow("eu", "1")), kept)
		})
	}
}

func TestCloneKeepsWhatIsAbsentApartFromWhatIsEmpty(t *testing.T) {
	rec := (&router.Record{Headers: []router.Header{{Key: "null"}, {Key: "empty", Value: []byte{}}}}).Clone()
	require.Nil(t, rec.Key)
	require.Nil(t, rec.Value)
	require.Nil(t, rec.Headers[0].Value)
	require.NotNil(t, rec.Headers[1].Value)
	require.NotNil(t, (&router.Record{Value: []byte{}}).Clone().Value)
}
