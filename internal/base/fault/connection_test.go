package fault_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func dialling(errno syscall.Errno) error {
	return &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092},
		Err: os.NewSyscallError("connect", errno),
	}
}

func TestConnection(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for want, errs := range map[string][]error{
		"refuses connections": {
			dialling(syscall.ECONNREFUSED),
			errors.Join(errors.New("a"), fmt.Errorf("b: %w", dialling(syscall.ECONNREFUSED))),
		},
		"does not answer": {
			dialling(syscall.ETIMEDOUT), os.ErrDeadlineExceeded, context.DeadlineExceeded, context.Cause(ctx),
			fmt.Errorf("receive ApiVersions from b:9092: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}),
		},
		"cannot be found: the name b.invalid cannot " +
			"be resolved": {
			&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "b.invalid", IsNotFound: true}},
		},
		"cannot be found: the name server gives no answer about b.invalid": {
			&net.DNSError{Err: "i/o timeout", Name: "b.invalid", IsTimeout: true},
			&net.DNSError{Err: "server misbehaving", Name: "b.invalid", IsTemporary: true},
		},
		"cannot be reached: there is no route to it from here": {
			dialling(syscall.ENETUNREACH), dialling(syscall.EHOSTUNREACH),
		},
		"does not speak TLS there": {
			fmt.Errorf("TLS handshake: %w", tls.RecordHeaderError{
				Msg: "first record does not look like a TLS handshake",
			}),
		},
		"refuses the TLS handshake: tls: bad " +
			"certificate": {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}},
		"shows a certificate that is not " +
			"accepted: " + x509.UnknownAuthorityError{}.Error(): {
			&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		},
		"closes the connection":     {io.EOF, fmt.Errorf("receive: %w", io.ErrUnexpectedEOF)},
		"breaks the connection off": {dialling(syscall.ECONNRESET), dialling(syscall.EPIPE)},
		"":                          {errors.New("the broker is too old"), context.Canceled},
	} {
		for _, err := range errs {
			require.Equal(t, want, fault.Connection(err), "%v", err)
		}
	}
}

// What the operating system and crypto/tls really answer, not what is remembered of it.
func TestConnectionOfRealErrors(t *testing.T) {
	_, err := net.Dial("tcp", "127.0.0.1:1") // a port of the system's choice may soon be another program's
	require.Equal(t, "refuses connections", fault.Connection(err), "%v", err)

	near, far := net.Pipe()
	go func() { _, _ = far.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	err = tls.Client(near, &tls.Config{ServerName: "b"}).HandshakeContext(t.Context())
	require.Equal(t, "does not speak TLS there", fault.Connection(err), "%v", err)

	near, far = net.Pipe()
	go func() { _ = tls.Server(far, &tls.Config{}).HandshakeContext(t.Context()) }() // without a certificate
	err = tls.Client(near, &tls.Config{ServerName: "b"}).HandshakeContext(t.Context())
	require.Contains(t, fault.Connection(err), "refuses the TLS handshake: ", "%v", err)

	near, _ = net.Pipe()
	require.NoError(t, near.SetReadDeadline(time.Now()))
	_, err = near.Read(make([]byte, 1))
	require.Equal(t, "does not answer", fault.Connection(err), "%v", err)
}

func TestWaitSentence(t *testing.T) {
	for _, c := range []struct{ object, reason, want string }{
		{"broker b:9092", "The broker at b:9092 refuses connections.", "The broker at b:9092 refuses connections."},
		{
			"brokers b:9092,c:9092", "One of the brokers b:9092, c:9092 closes the connection.",
			"One of the brokers b:9092, c:9092 closes the connection.",
		},
		{
			"brokers b:9092,c:9092", "The broker at b:9092 does not answer. The broker at c:9092 does not answer.",
			"The broker at b:9092 does not answer. The broker at c:9092 does not answer.",
		},
		{`topic "t"`, "The topic does not exist.", `topic "t": The topic does not exist.`},
		{"broker b:9092", "SASL PLAIN with b:9092: wrong", "broker b:9092: SASL PLAIN with b:9092: wrong"},
		{"", "starting", ": starting"},
	} {
		require.Equal(t, c.want, fault.Wait{Object: c.object, Reason: c.reason}.Sentence())
	}
}
