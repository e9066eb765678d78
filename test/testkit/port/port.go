// Package port finds TCP ports for servers that need to know their port before they start.
package port

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// taken are the ports this process was given: the server that asked may not have bound its port yet.
var taken sync.Map

// register has a byte for each port, which the process that was given the port has locked until its end, so that tests
// of other packages, which run at the same time, are not given it as well. It is never closed: that would give all
// locks back. nil: it is another user's, and cannot be used.
var register = sync.OnceValue(func() *os.File {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "cdc-outbox-test-ports"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil
	}
	return f
})

// Free returns a port on 127.0.0.1 that no process listens on, and that no other call returns. It lies below Linux's
// ephemeral range (32768 and up), so that an outgoing connection does not take it while its server restarts. A program
// that is none of ours may still be faster: the server that binds it should be ready to ask again.
func Free() (int, error) {
	for range 200 {
		p := 15000 + rand.IntN(17000)
		if _, given := taken.LoadOrStore(p, true); given || !ours(p) {
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

// ours reports whether no other process was given the port.
func ours(p int) bool {
	f := register()
	if f == nil {
		return true
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(p), Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock) == nil
}

// Addr is the loopback address with port p.
func Addr(p int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p)) }
