package telemetry

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOtherSitesCannotPassThemselvesOffAsLoopback(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9464}, &net.TCPAddr{IP: net.IPv4zero, Port: 9464}
	h := handlers(true, "streaming")
	for host, code := range map[string]int{
		"127.0.0.1:9464": 200, "localhost:9464": 200, "LocalHost.": 200, "[::1]:9464": 200, "127.0.0.2": 200,
		"pod.localhost:1": 200, "": 200,
		"evil.example:9464": 403, "evil.example": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
		"10.0.0.1:9464": 403, "notlocalhost": 403,
	} {
		for _, url := range []string{"/", "/status", "/metrics", "/healthz"} {
			r := httptest.NewRequest("GET", url, nil)
			r.Host = host
			w := httptest.NewRecorder()
			localNamesOnly(loopback, NewHandler(h)).ServeHTTP(w, r)
			require.Equal(t, code, w.Code, "%s %s", host, url)
			w = httptest.NewRecorder()
			localNamesOnly(all, NewHandler(h)).ServeHTTP(w, r)
			require.Equal(t, 200, w.Code, "%s: by which name other hosts reach it is not known here", host)
		}
	}
}
