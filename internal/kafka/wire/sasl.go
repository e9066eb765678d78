package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

const saslRemedy = "Check kafka.sasl (mechanism, username, password) against the broker's listener; the connection " +
	"is tried again automatically."

func (s *SASL) validate() error {
	switch s.Mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		return fmt.Errorf("SASL mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", s.Mechanism)
	}
	if s.Password == nil {
		return errors.New("no SASL password")
	}
	return nil
}

// mechanism reads the password again.
func (s *SASL) mechanism() (sasl.Mechanism, error) {
	password, err := s.Password()
	if err != nil {
		return nil, err
	}
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.Username, password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.Username, password)
	default:
		return plain.Mechanism{Username: s.Username, Password: password}, nil
	}
}

// illegalSASLState is how a listener without SASL answers the handshake.
const illegalSASLState = 34

// exchange sends a request and returns its answer.
type exchange func(req protocol.Message) (protocol.Message, error)

// Authenticate runs the mechanism inside SaslHandshake and SaslAuthenticate requests (KIP-152), and notes when that has
// to be done again.
func (w *Conn) Authenticate(ctx context.Context, ask exchange) error {
	cfg := w.sasl
	refused := func(err error) error {
		return &DialError{
			NotAuthenticated, fmt.Errorf("SASL %s with %s: %w", cfg.Mechanism, w.Addr, err), saslRemedy,
			"",
		}
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return refused(err)
	}
	res, err := ask(&saslhandshake.Request{Mechanism: cfg.Mechanism})
	if err != nil {
		return &DialError{BrokerUnreachable, err, "Check that the broker's listener on this port speaks SASL.", w.Addr}
	}
	hs := res.(*saslhandshake.Response)
	if hs.ErrorCode == illegalSASLState {
		return &DialError{
			NotAuthenticated,
			fmt.Errorf("%s does no SASL: its listener there is PLAINTEXT or SSL (ILLEGAL_SASL_STATE)", w.Addr),
			"Name the port of a SASL_SSL or SASL_PLAINTEXT listener in kafka.brokers, or leave " +
				"kafka.sasl.mechanism empty.",
			"",
		}
	}
	if hs.ErrorCode != 0 {
		return refused(fmt.Errorf("%s; the broker offers %s", VerdictOf(hs.ErrorCode).Name,
			strings.Join(hs.Mechanisms, ", ")))
	}

	host, port, _ := net.SplitHostPort(w.Addr)
	portNumber, _ := strconv.Atoi(port)
	session, answer, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: portNumber}))
	if err != nil {
		return refused(err)
	}
	lifetime := int64(0)
	for completed := false; !completed; {
		res, err := ask(&saslauthenticate.Request{AuthBytes: answer})
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF): // the way some brokers refuse
			return refused(err)
		case err != nil:
			return &DialError{BrokerUnreachable, err, saslRemedy, w.Addr}
		}
		auth := res.(*saslauthenticate.Response)
		if auth.ErrorCode != 0 {
			return refused(errors.New(VerdictOf(auth.ErrorCode).Name))
		}
		lifetime = auth.SessionLifetimeMs
		if completed, answer, err = session.Next(ctx, auth.AuthBytes); err != nil {
			return refused(err)
		}
	}
	w.renewAt = renewal(time.Duration(lifetime) * time.Millisecond)
	return nil
}

// minRenewal: a broker ends a connection that authenticates again within a second
// (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
const minRenewal = 1100 * time.Millisecond

// renewal is when to authenticate again in a session of this length: towards its end, as the Java client does it
// (ExpiringCredential's window, KIP-368), at a moment of chance so that many connections do not do it at once. The zero
// time for a session without an end.
func renewal(lifetime time.Duration) time.Time {
	if lifetime <= 0 {
		return time.Time{}
	}
	return time.Now().Add(max(minRenewal, lifetime*85/100+rand.N(lifetime/20+1)))
}

// RenewalDue reports whether the session has to be renewed before the next request. It is asked when there is one to
// send, and there is no timer: a broker takes the renewal of a session that has ended, too, as long as nothing else
// comes before it.
func (w *Conn) RenewalDue() bool { return !w.renewAt.IsZero() && time.Now().After(w.renewAt) }

// renew authenticates again where that is due (KIP-368), with the password as it is now. Only for connections without
// pipelining; conn.renew is for the others.
func (w *Conn) renew(timeout time.Duration) error {
	if !w.RenewalDue() {
		return nil
	}
	w.renewAt = time.Time{}
	return w.Authenticate(context.Background(), func(req protocol.Message) (protocol.Message, error) {
		return w.RoundTrip(req, timeout)
	})
}
