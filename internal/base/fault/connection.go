package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// Connection describes the failure of a connection in words. The text is a verb for the far side, so that it can follow
// the far side's name: "refuses connections", "does not answer". It is empty for an error that already says so. Go's
// texts name system calls, which an operator on call at night should not have to know.
func Connection(err error) string {
	for _, rule := range connectionRules {
		if what := rule(err); what != "" {
			return what
		}
	}
	return ""
}

// connectionRules are tried in order: an error that knows its reason comes before the class that it belongs to as well,
// such as that of timeouts.
var connectionRules = []func(error) string{unresolved, tlsFailure, describeUnreachable, timedOut, describeBroken}

func unresolved(err error) string {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return ""
	case dns.IsNotFound:
		return "cannot be found: the name " + dns.Name + " cannot be resolved"
	}
	return "cannot be found: the name server gives no answer about " + dns.Name
}

func tlsFailure(err error) string {
	var (
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		op     *net.OpError
	)
	switch {
	case errors.As(err, &cert):
		return "shows a certificate that is not accepted: " + cert.Err.Error()
	case errors.As(err, &record):
		return "does not speak TLS there"
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls's name for an alert of the far side
		return "refuses the TLS handshake: " + op.Err.Error()
	}
	return ""
}

func describeUnreachable(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses connections"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "cannot be reached: there is no route to it from here"
	}
	return ""
}

func timedOut(err error) string {
	var t interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout() {
		return "does not answer"
	}
	return ""
}

func describeBroken(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "breaks the connection off"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closes the connection"
	}
	return ""
}
