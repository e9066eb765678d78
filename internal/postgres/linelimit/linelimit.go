// Package linelimit has the kernel give up a connection to Postgres whose other end no longer answers.
package linelimit

import (
	"net"
	"time"
)

const (
	// limit is how long bytes may lie unacknowledged by the other host before the kernel gives the connection up,
	// where the kernel has a setting for that (setUserTimeout). Without it a line that swallows everything is
	// noticed after some 15 minutes of retransmissions. Status updates go out every second, so there is always
	// something to be acknowledged, also while a full window keeps the reader away, when no goroutine listens for the
	// server's silence.
	limit = 20 * time.Second
	// probe is how long nothing may pass before the kernel asks whether the other host is still there.
	probe = 10 * time.Second
)

// Set has the kernel notice a peer that no longer answers. It works on what it is given: a connection that is not TCP
// needs none of it, and one that refuses is no worse than before.
func Set(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probe, Interval: probe / 4, Count: 4})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(setUserTimeout)
}
