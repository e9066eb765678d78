package telemetry

import (
	"net"
	"net/http"
	"strings"
)

// localNamesOnly keeps other sites out of a server that listens on loopback. A site's name can be made to mean
// 127.0.0.1 once its page is loaded (DNS rebinding); the browser then takes this server for a part of that site and
// lets its scripts read the answers. The Host header still has the site's name. If the server listens on other
// addresses, people reach it by names that this process does not know, and the network protects it.
func localNamesOnly(listen net.Addr, next http.Handler) http.Handler {
	if tcp, ok := listen.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localName(r.Host) {
			text(w, http.StatusForbidden, "http.listen is a loopback address, so this is answered for localhost and "+
				"loopback addresses only. "+
				"A reverse proxy on this host must send one of them as Host.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName takes an empty name, too: HTTP/1.0 needs none, and a browser always sends one.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
