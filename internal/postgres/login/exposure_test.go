package login_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// connection is one to an address.
type connection struct {
	net.Conn
	to net.Addr
}

func (c connection) RemoteAddr() net.Addr { return c.to }

// TestExposedPasswords: a password that others can read is reported, and no other.
//
// Bug (configuration): A server that says it has no TLS, and asks for the password in clear text, got it. Cost: anyone
// between has the password, and neither run nor check said a word.
func TestExposedPasswords(t *testing.T) {
	away := connection{to: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432}}
	var got []string
	login.Observe(func(server, method string) { got = append(got, server+" "+method) })
	asks := func(w io.Writer, method byte) []string {
		got = nil
		b := message('R', string([]byte{0, 0, 0, method})+"salt")
		_, err := io.Copy(io.Discard, login.Bounded(bytes.NewReader(b), w))
		require.NoError(t, err)
		return got
	}
	require.Equal(t, []string{"10.0.0.5:5432 cleartext"}, asks(away, 3))
	require.Equal(t, []string{"10.0.0.5:5432 md5"}, asks(away, 5))
	require.Empty(t, asks(away, 10), "SCRAM")
	require.Empty(t, asks(away, 0), "nothing is asked for")
	require.Empty(t, asks(connection{to: &net.TCPAddr{IP: net.IPv6loopback, Port: 5432}}, 3))
	require.Empty(t, asks(connection{to: &net.UnixAddr{Name: "/run/.s.PGSQL.5432", Net: "unix"}}, 3))
	require.Empty(t, asks(tls.Client(away, &tls.Config{}), 3)) //nolint:gosec // nothing is dialled
}
