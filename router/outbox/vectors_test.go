package outbox

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// vectorFile is the form of testdata/router/*.json, see the README there.
type vectorFile struct {
	Topic      string
	Position   string
	CommitTime time.Time `json:"commit_time"`
	Columns    map[string]string
	Relation   struct {
		Schema, Table string
		Columns       []struct {
			Name string
			Type uint32
		}
	}
	Vectors []vector
}

type vector struct {
	Name string
	Row  []*string
	Want *struct {
		Topic     string
		Key       string
		Value     *string
		ValueHex  string `json:"value_hex"`
		Timestamp int64
		Headers   [][2]*string
	}
	Error *struct {
		Reason  router.Reason
		Column  string
		EventID string `json:"event_id"`
	}
}

func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../testdata/router/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var f vectorFile
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &f))
			require.NotEmpty(t, f.Vectors)
			r, err := New(Config{Topic: f.Topic, Columns: f.columns()})
			require.NoError(t, err)
			rel := f.relation()
			// One router for all vectors of a file: what a row leaves behind in the buffers must not show in the next.
			for range 2 {
				for _, v := range f.Vectors {
					t.Run(v.Name, func(t *testing.T) { v.check(t, r, rel, &f) })
				}
			}
		})
	}
}

func (f *vectorFile) columns() Columns {
	if f.Columns == nil {
		return DefaultColumns()
	}
	c := f.Columns
	return Columns{
		ID: c["id"], AggregateType: c["aggregate_type"], AggregateID: c["aggregate_id"], Type: c["type"],
		Payload: c["payload"], Headers: c["headers"], Timestamp: c["timestamp"],
	}
}

func (f *vectorFile) relation() *pgoutput.Relation {
	rel := &pgoutput.Relation{OID: 16384, Namespace: f.Relation.Schema, Name: f.Relation.Table}
	for _, c := range f.Relation.Columns {
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: c.Name, TypeOID: c.Type})
	}
	return rel
}

func (v *vector) check(t *testing.T, r *Router, rel *pgoutput.Relation, f *vectorFile) {
	row := make(pgoutput.Tuple, len(v.Row))
	for i, text := range v.Row {
		row[i] = pgoutput.Value{Kind: pgoutput.Null}
		if text != nil {
			row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(*text)}
		}
	}
	rec, err := r.Route(rel, row, router.Source{Position: []byte(f.Position), CommitTime: f.CommitTime})
	if v.Error != nil {
		var e *router.RowError
		require.ErrorAs(t, err, &e)
		require.Equal(t, v.Error.Reason, e.Reason)
		require.Equal(t, v.Error.Column, e.Column)
		require.Equal(t, v.Error.EventID, e.EventID)
		require.Equal(t, rel.Namespace+"."+rel.Name, e.Table)
		require.NotEmpty(t, e.Detail)
		require.NotEmpty(t, e.Remedy)
		return
	}
	require.NoError(t, err)
	require.Equal(t, v.Want.Topic, rec.Topic)
	require.Equal(t, int32(-1), rec.Partition)
	require.NotNil(t, rec.Key)
	require.Equal(t, v.Want.Key, string(rec.Key))
	require.Equal(t, v.Want.Timestamp, rec.Timestamp)
	switch {
	case v.Want.ValueHex != "":
		require.Equal(t, v.Want.ValueHex, hex.EncodeToString(rec.Value))
	case v.Want.Value == nil:
		require.Nil(t, rec.Value)
	default:
		require.NotNil(t, rec.Value)
		require.Equal(t, *v.Want.Value, string(rec.Value))
	}
	got := make([][2]*string, len(rec.Headers))
	for i, h := range rec.Headers {
		got[i][0] = &h.Key
		if h.Value != nil {
			value := string(h.Value)
			got[i][1] = &value
		}
	}
	require.Equal(t, v.Want.Headers, got)
}
