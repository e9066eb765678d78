package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

const saslRemedy = "Check kafka.sasl (mechanism, username, password) against the broker's listener; the connection " +
	"is tried again automatically."

func (s *SASL) validate() error {
	switch s.Mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	case OAuthBearer, AWSMSKIAM:
		if s.Tokens == nil {
			return errors.New("no source of SASL tokens")
		}
		return nil
	default:
		return fmt.Errorf("SASL mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, %s, %s", s.Mechanism,
			OAuthBearer, AWSMSKIAM)
	}
	if s.Password == nil {
		return errors.New("no SASL password")
	}
	return nil
}

// mechanism reads name and password again, or takes the token that is recent now.
func (s *SASL) mechanism(ctx context.Context) (sasl.Mechanism, error) {
	if s.bearer() {
		token, err := s.Tokens.Get(ctx)
		if err != nil {
			return nil, err
		}
		return &oauthBearer{token.Value, s.Extensions}, nil
	}
	user := s.Username
	if s.User != nil {
		var err error
		if user, err = s.User(); err != nil {
			return nil, err
		}
	}
	password, err := s.Password()
	if err != nil {
		return nil, err
	}
	if s.Mechanism == "PLAIN" {
		return plain.Mechanism{Username: user, Password: password}, nil
	}
	return newSCRAM(s.Mechanism, user, password)
}

// Login is the mechanism for connections that another client opens: it reads the password, or takes a token, for each.
type Login struct{ *SASL }

// Mechanism is its name for a broker.
func (l Login) Mechanism() string { return l.wireName() }

// Start returns what is sent first, and what answers a challenge, until nothing more is awaited.
func (l Login) Start(ctx context.Context, _ string) ([]byte, func([]byte) ([]byte, bool, error), error) {
	m, err := l.mechanism(ctx)
	if err != nil {
		return nil, nil, err
	}
	session, first, err := m.Start(ctx)
	if err != nil {
		return nil, nil, err
	}
	return first, func(challenge []byte) ([]byte, bool, error) {
		done, response, err := session.Next(ctx, challenge)
		return response, done, err
	}, nil
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
			sink.NotAuthenticated, fmt.Errorf("SASL %s with %s: %w", cfg.Mechanism, w.Addr, err), cfg.remedyFor(err),
			"",
		}
	}
	mechanism, err := cfg.mechanism(ctx)
	var token *TokenError
	switch {
	case errors.As(err, &token): // not this broker's fault
		return cfg.without(token)
	case err != nil:
		return refused(err)
	}
	res, err := ask(&saslhandshake.Request{Mechanism: cfg.wireName()})
	if err != nil {
		return &DialError{
			sink.BrokerUnreachable, err, "Check that the broker's listener on this port speaks SASL.", w.Addr,
		}
	}
	hs := res.(*saslhandshake.Response)
	if hs.ErrorCode == illegalSASLState {
		return &DialError{
			sink.NotAuthenticated,
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

	lifetime, err := w.converse(ctx, mechanism, ask, refused)
	if err != nil {
		return err
	}
	w.renewFor(lifetime)
	return nil
}

// converse exchanges the mechanism's messages, and returns how long the session lasts in milliseconds.
func (w *Conn) converse(ctx context.Context, mechanism sasl.Mechanism, ask exchange, refused func(error) error) (
	lifetime int64, _ error,
) {
	host, port, _ := net.SplitHostPort(w.Addr)
	portNumber, _ := strconv.Atoi(port)
	session, answer, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: portNumber}))
	if err != nil {
		return 0, refused(err)
	}
	reason := func(err error) error {
		if c, ok := session.(challenger); ok {
			return cmp.Or(c.refused(), err)
		}
		return err
	}
	for completed := false; !completed; {
		res, err := ask(&saslauthenticate.Request{AuthBytes: answer})
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF): // the way some brokers refuse
			return 0, refused(reason(err))
		case err != nil:
			return 0, &DialError{sink.BrokerUnreachable, err, w.sasl.remedyFor(err), w.Addr}
		}
		auth := res.(*saslauthenticate.Response)
		if auth.ErrorCode != 0 {
			return 0, refused(reason(errors.New(VerdictOf(auth.ErrorCode).Name)))
		}
		lifetime = auth.SessionLifetimeMs
		if completed, answer, err = session.Next(ctx, auth.AuthBytes); err != nil {
			return 0, refused(err)
		}
	}
	return lifetime, nil
}

// renewFor notes how long the session lasts. Tokens may be good for centuries.
func (w *Conn) renewFor(milliseconds int64) {
	lifetime := time.Duration(min(milliseconds, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	w.renewAt, w.renewBy = renewal(lifetime), time.Now().Add(lifetime/100*95)
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
	return time.Now().Add(max(minRenewal, lifetime/100*85+rand.N(lifetime/20+1)))
}

// tokenPoll is how often a connection asks whether the token for its renewal has come.
const tokenPoll = 100 * time.Millisecond

// RenewalDue reports whether the session has to be renewed before the next request. It is asked when there is one to
// send, and there is no timer: a broker takes the renewal of a session that has ended, too, as long as nothing else
// comes before it. A renewal that needs a token waits for it as long as the session lasts, while requests continue.
func (w *Conn) RenewalDue() bool {
	if w.renewAt.IsZero() {
		return false
	}
	now := time.Now()
	if !now.After(w.renewAt) {
		return false
	}
	if w.sasl.bearer() && now.Before(w.renewBy) && !w.sasl.Tokens.Ahead() {
		w.renewAt = now.Add(tokenPoll)
		return false
	}
	return true
}

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
