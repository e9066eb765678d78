package polling

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

func TestMarkGoesThroughTheTableInItsOrder(t *testing.T) {
	rows := []batchRow{
		{seq: 1, part: []byte("17"), tid: []byte("(100,2)")},
		{seq: 2, part: []byte("17"), tid: []byte("(9,31)")},
		{seq: 3, part: []byte("17"), tid: []byte("(9,4)")},
		{seq: 4, part: []byte("16"), tid: []byte("(200,1)")},
		{seq: 5, part: []byte("17"), tid: []byte("(0,1)")}, // not settled
	}
	s := newStatements(&Config{Columns: Columns{Key: "k", Sequence: "seq", Published: "p"}},
		identifier.Table{Schema: "public", Name: "outbox"})
	require.Contains(t, s.mark(rows, []int{0, 1, 2, 3}),
		`unnest('{4,3,2,1}'::bigint[], '{16,17,17,17}'::oid[], '{"(200,1)","(9,4)","(9,31)","(100,2)"}'::tid[])`)
}
