package gap

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEarliest(t *testing.T) {
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	from, unknown := Earliest(nil)
	require.Zero(t, from)
	require.Nil(t, unknown)
	from, unknown = Earliest([]Gap{{ID: 1, FromAt: &second}, {ID: 2, FromAt: &first}})
	require.Equal(t, first, from)
	require.Nil(t, unknown)
	from, unknown = Earliest([]Gap{{ID: 1, FromAt: &second}, {ID: 2}, {ID: 3}})
	require.Equal(t, second, from)
	require.EqualValues(t, 2, unknown.ID)
}
