package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatusAt(t *testing.T) {
	for typed, want := range map[string]string{
		"host:9464": "http://host:9464/status", "http://host:9464/": "http://host:9464/status",
		"https://host/relay/status": "https://host/relay/status", "[::1]:9464": "http://[::1]:9464/status",
	} {
		got, err := statusAt(typed)
		require.NoError(t, err, typed)
		require.Equal(t, want, got)
	}
	for _, typed := range []string{"", "ftp://host", "http://", "http://a b"} {
		_, err := statusAt(typed)
		require.Error(t, err, typed)
	}
}
