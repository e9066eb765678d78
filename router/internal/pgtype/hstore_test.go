package pgtype

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

func TestHashMapOrder(t *testing.T) {
	f, err := os.Open("../../../testdata/java/hashmap.jsonl")
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v struct{ Keys, Order []string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		pairs := []connect.Value{}
		for _, k := range v.Keys {
			pairs = append(pairs, connect.Text([]byte(k)), connect.Value{})
		}
		got := []string{}
		for i, p := range hashMapOrder(pairs) {
			if i%2 == 0 {
				got = append(got, string(p.Data))
			}
		}
		require.Equal(t, v.Order, got)
	}
}
