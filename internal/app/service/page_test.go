package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageAddress(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:9464": "http://127.0.0.1:9464/", "0.0.0.0:9464": "http://127.0.0.1:9464/",
		"[::]:9464": "http://127.0.0.1:9464/", "[::1]:9464": "http://[::1]:9464/", "": "",
	} {
		require.Equal(t, want, pageAddress(listens), listens)
	}
}
