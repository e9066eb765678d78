package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for want, b := range map[string][]byte{
		"(null)": nil, "": {}, `{"total": 12.50}`: []byte(`{"total": 12.50}`), "a\nß": []byte("a\nß"),
		`"\x1b[2J"`: []byte("\x1b[2J"), `"\x00\xff"`: {0, 0xff},
	} {
		require.Equal(t, want, text(b))
	}
}
