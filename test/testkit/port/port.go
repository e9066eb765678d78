// Package port finds TCP ports for servers that need to know their port before they start.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// taken are the ports this process was given: the server that asked may not have bound its port yet.
var taken sync.Map

// Free returns a port on 127.0.0.1 that no process listens on. It lies below Linux's ephemeral range (32768 and up), so
// that an outgoing connection does not take it while its server restarts. Another process may still be faster: the
// server that binds it should be ready to ask again.
func Free() (int, error) {
	for range 200 {
		p := 15000 + rand.IntN(17000)
		if _, given := taken.LoadOrStore(p, true); given {
			continue
		}
		l, err := net.Listen("tcp", Addr(p))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return p, nil
	}
	return 0, fmt.Errorf("no free TCP port found between 15000 and 32000")
}

// Addr is the loopback address with port p.
func Addr(p int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p)) }
