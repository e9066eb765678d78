package login

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLibpqKeepAlive: what the connection string says of probes is what the socket has.
func TestLibpqKeepAlive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for parameters, want := range map[string][4]int{
		"keepalives_idle=31 keepalives_interval=7 keepalives_count=3": {1, 31, 7, 3},
		"keepalives=0": {0},
	} {
		pc := parsed(t, "host=127.0.0.1 connect_timeout=9 "+parameters)
		require.NoError(t, Libpq(pc))
		conn, err := pc.DialFunc(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		var got [4]int
		require.NoError(t, raw.Control(func(fd uintptr) {
			for i, option := range []struct{ level, name int }{
				{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
				{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
				{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
				{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
			} {
				got[i], err = syscall.GetsockoptInt(int(fd), option.level, option.name)
				if err != nil || got[0] == 0 {
					return
				}
			}
		}))
		require.NoError(t, err)
		require.Equal(t, want, got, parameters)
		require.NoError(t, conn.Close())
	}
}
