package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// The headline of the page and of status --why when no broker can be had.
func TestConnectionSentences(t *testing.T) {
	op := func(errno syscall.Errno) error {
		return &net.OpError{
			Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092},
			Err: os.NewSyscallError("connect", errno),
		}
	}
	at := func(addr string, err error) error { return &DialError{sink.BrokerUnreachable, err, "", addr} }
	const one, two = "broker 127.0.0.1:9092", "brokers a:1,b:2"
	for name, c := range map[string]struct {
		object string
		err    error
		want   string
	}{
		"refused": {
			one, at("127.0.0.1:9092", op(syscall.ECONNREFUSED)),
			"The broker at 127.0.0.1:9092 refuses connections.",
		},
		"a name": {
			one, at("localhost:9092", op(syscall.ECONNREFUSED)),
			"The broker at localhost:9092 (127.0.0.1:9092) refuses connections.",
		},
		"timeout": {
			one, at("b:1", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}),
			"The broker at b:1 does not answer.",
		},
		"no such host": {
			one, at("b:1", &net.OpError{Op: "dial", Err: &net.DNSError{Name: "b", IsNotFound: true}}),
			"The broker at b:1 cannot be found: the name b cannot be resolved.",
		},
		"network unreachable": {
			one, at("127.0.0.1:9092", op(syscall.ENETUNREACH)),
			"The broker at 127.0.0.1:9092 cannot be reached: there is no route to it from here.",
		},
		"TLS": {
			one, at("b:1", fmt.Errorf("TLS handshake with b:1: %w",
				&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})),
			"The broker at b:1 shows a certificate that is not accepted: " +
				"x509: certificate signed by unknown authority.",
		},
		"EOF while connecting": {
			one, at("b:1", fmt.Errorf("receive ApiVersions from b:1: %w", io.EOF)),
			"The broker at b:1 closes the connection.",
		},
		"EOF later": {
			one, fmt.Errorf("receive Produce from 127.0.0.1:9092: %w", io.EOF),
			"The broker at 127.0.0.1:9092 closes the connection.",
		},
		"EOF of one of two": {
			two, fmt.Errorf("receive Metadata from b:2: %w", io.EOF),
			"One of the brokers a:1, b:2 closes the connection.",
		},
		"each of two": {
			two, errors.Join(at("a:1", io.EOF), at("b:2", os.ErrDeadlineExceeded)),
			"The broker at a:1 closes the connection. The broker at b:2 does not answer.",
		},
		"one that is named twice": {
			two, errors.Join(at("a:1", io.EOF), at("a:1", io.EOF)),
			"The broker at a:1 closes the connection.",
		},
		"its own words": {
			one, &DialError{sink.Rejected, errors.New("the broker at b:1 is too old"), "", ""},
			"The broker at b:1 is too old.",
		},
		"a refused login": {one, &DialError{
			sink.NotAuthenticated,
			fmt.Errorf("SASL PLAIN with b:1: %w", io.ErrUnexpectedEOF), "", "",
		}, "SASL PLAIN with b:1: unexpected EOF."},
	} {
		require.Equal(t, c.want, Sentences(c.object, c.err), name)
	}
}
