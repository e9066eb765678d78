package login_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

func message(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(b, body...)
}

func sasl(body string) []byte { return message('R', "\x00\x00\x00\x0b"+body) }

// endless repeats a message for ever.
type endless struct{ message, rest []byte }

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = e.message
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestGuard: a server that is a stranger yet may send a MiB, and may ask for so much work.
//
// Bug (configuration): What a server sent before the login was through had no bound. Cost: endless parameters took
// 1.1 GiB in 8 s; a login by SCRAM with 9.9 million iterations kept a core busy for 11 s.
func TestGuard(t *testing.T) {
	parameter := message('S', "application_name\x00x\x00")
	ready := message('Z', "I")
	for name, test := range map[string]struct {
		from io.Reader
		says string
	}{
		"a login":              {bytes.NewReader(append(sasl("r=a,s=b,i=4096"), ready...)), ""},
		"much after the login": {io.MultiReader(bytes.NewReader(ready), bytes.NewReader(make([]byte, 2<<20))), ""},
		"endless parameters":   {&endless{message: parameter}, "more than 1048576 bytes before the login"},
		"endless, a byte each": {iotest.OneByteReader(&endless{message: parameter}), "more than 1048576 bytes"},
		"iterations":           {bytes.NewReader(sasl("r=a,s=b,i=9900000")), "iterations of SCRAM"},
		"iterations, byte by byte": {
			iotest.OneByteReader(bytes.NewReader(append(parameter, sasl("r=a,s=b,i=1000001")...))),
			"iterations of SCRAM",
		},
		"no iterations":    {bytes.NewReader(sasl("r=a,s=b,i=0")), "iterations of SCRAM"},
		"a negative count": {bytes.NewReader(sasl("r=a,s=b,i=-4096")), "iterations of SCRAM"},
		"a huge message":   {bytes.NewReader([]byte("S\x7f\xff\xff\xff")), "no possible length"},
		"a short one":      {bytes.NewReader([]byte("R\x00\x00\x00\x03")), "no possible length"},
		"a negative one":   {bytes.NewReader([]byte("R\xff\xff\xff\xff")), "no possible length"},
	} {
		_, err := io.Copy(io.Discard, login.Bounded(test.from, io.Discard))
		if test.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.says, name)
		}
	}
}

// TestGuardOfAnswers: after the login a server may answer a request with so much, unless rows are read.
//
// Bug (configuration): What a server sent after the login had no bound, and pgx keeps results and notifications until
// the statement ends. Cost: endless ones took gigabytes within seconds. Also: `TestLiesOfAServer` in `test/e2e`, e2e.
func TestGuardOfAnswers(t *testing.T) {
	const much = 5 << 20
	line := func() *login.Line {
		notifications := &endless{message: message('A', "")}
		l := login.Bounded(io.MultiReader(bytes.NewReader(message('Z', "I")), notifications), io.Discard)
		_, err := io.CopyN(io.Discard, l, 6)
		require.NoError(t, err)
		return l
	}
	asked := line()
	for range 5 {
		_, err := asked.Write([]byte("Q"))
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, asked, much)
		require.NoError(t, err)
	}
	_, err := io.CopyN(io.Discard, asked, much)
	require.ErrorContains(t, err, "without being asked again")
	rows := line()
	rows.Lift()
	_, err = io.CopyN(io.Discard, rows, 5*much)
	require.NoError(t, err)
}

// TestGuardInLogin: pgconn ends a login with the guard's reason.
func TestGuardInLogin(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(conn, &endless{message: message('S', "a\x00b\x00")})
			_ = conn.Close()
		}
	}()
	pc, err := pgconn.ParseConfig("postgres://u:p@" + listener.Addr().String() + "/d?sslmode=disable")
	require.NoError(t, err)
	login.Guard(pc)
	_, err = pgconn.ConnectConfig(context.Background(), pc)
	require.ErrorContains(t, err, "before the login was through")
}

// FuzzGuard: any bytes are followed without a panic, and in whichever pieces they come the verdict is the same.
func FuzzGuard(f *testing.F) {
	f.Add(append(sasl("r=a,s=b,i=4096"), message('Z', "I")...))
	f.Add(sasl("i=9900000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, whole := io.Copy(io.Discard, login.Bounded(bytes.NewReader(b), io.Discard))
		_, pieces := io.Copy(io.Discard, login.Bounded(iotest.OneByteReader(bytes.NewReader(b)), io.Discard))
		require.Equal(t, whole == nil, pieces == nil)
	})
}
