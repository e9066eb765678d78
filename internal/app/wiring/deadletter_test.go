package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDInJSON(t *testing.T) {
	for header, want := range map[string]string{
		`"e1"`: "e1", `17`: "17", `{"schema":{"type":"string","optional":false},"payload":"e\"1"}`: `e"1`,
		`{"schema":{"type":"int64"},"payload":17}`: "17",
	} {
		require.Equal(t, want, string(idInJSON([]byte(header))))
	}
	for _, header := range []string{"null", `{"schema":{"type":"string"},"payload":null}`} {
		require.Nil(t, idInJSON([]byte(header)), header)
	}
}
