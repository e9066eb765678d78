package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

const saslRemedy = "Check kafka.sasl (mechanism, username, password) against the broker's listener; the connection is tried again by itself."

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

// mechanism reads the password anew.
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

// authenticate runs the mechanism inside SaslHandshake and SaslAuthenticate requests (KIP-152). Where the broker
// limits the session (connections.max.reauth.ms) it closes the connection at its end, and a new one is made.
func (w *wire) authenticate(ctx context.Context, cfg *SASL, timeout time.Duration) error {
	refused := func(err error) error {
		return &dialError{NotAuthenticated, fmt.Errorf("SASL %s with %s: %w", cfg.Mechanism, w.addr, err), saslRemedy}
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return refused(err)
	}
	res, err := w.roundTrip(&saslhandshake.Request{Mechanism: cfg.Mechanism}, timeout)
	if err != nil {
		return &dialError{BrokerUnreachable, err, "Check that the broker's listener on this port speaks SASL."}
	}
	if hs := res.(*saslhandshake.Response); hs.ErrorCode != 0 {
		return refused(fmt.Errorf("%s; the broker offers %s", verdictOf(hs.ErrorCode).name, strings.Join(hs.Mechanisms, ", ")))
	}

	host, port, _ := net.SplitHostPort(w.addr)
	portNumber, _ := strconv.Atoi(port)
	session, answer, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: portNumber}))
	if err != nil {
		return refused(err)
	}
	for completed := false; !completed; {
		res, err := w.roundTrip(&saslauthenticate.Request{AuthBytes: answer}, timeout)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF): // the way some brokers refuse
			return refused(err)
		case err != nil:
			return &dialError{BrokerUnreachable, err, saslRemedy}
		}
		auth := res.(*saslauthenticate.Response)
		if auth.ErrorCode != 0 {
			return refused(errors.New(verdictOf(auth.ErrorCode).name))
		}
		if completed, answer, err = session.Next(ctx, auth.AuthBytes); err != nil {
			return refused(err)
		}
	}
	return nil
}
