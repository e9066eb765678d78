package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	// Each import registers an API with the protocol package.
	_ "github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	_ "github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	_ "github.com/segmentio/kafka-go/protocol/createtopics"
	_ "github.com/segmentio/kafka-go/protocol/describeconfigs"
	_ "github.com/segmentio/kafka-go/protocol/endtxn"
	_ "github.com/segmentio/kafka-go/protocol/findcoordinator"
	_ "github.com/segmentio/kafka-go/protocol/initproducerid"
	_ "github.com/segmentio/kafka-go/protocol/metadata"
	_ "github.com/segmentio/kafka-go/protocol/produce"
	_ "github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// DialError says why a connection did not come about.
type DialError struct {
	Kind   sink.TroubleKind
	err    error
	Remedy string
	addr   string // for which Error makes the sentence
}

func (e *DialError) Unwrap() error { return e.err }

// Dial connects to a broker: TCP, TLS, ApiVersions, SASL, and the cluster's id. All errors are *DialError.
func Dial(ctx context.Context, c *Cluster, addr string) (_ *Conn, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()

	if err := c.SASL.await(ctx); err != nil { // without a token there is no reason to connect
		return nil, err
	}
	nc, err := c.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, &DialError{
			sink.BrokerUnreachable, err, "Check that the broker runs and that kafka.brokers and its " +
				"advertised.listeners name an address reachable from here.", addr,
		}
	}
	// The handshakes below know nothing of contexts; closing the connection ends them.
	raw := nc
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer func() {
		if !stop() && err == nil {
			err = &DialError{sink.BrokerUnreachable, context.Cause(ctx), "", addr}
		}
		if err != nil {
			_ = raw.Close()
			err = c.silence(ctx, addr, time.Since(began), err)
		}
	}()

	if c.TLS != nil {
		if nc, err = c.handshakeTLS(ctx, nc, addr); err != nil {
			return nil, err
		}
	}
	w := newWire(nc, addr, c.ClientID)
	w.answered, w.opening = c.Answers.lastAnswer(addr), true
	if err := w.negotiate(c.DialTimeout); err != nil {
		return nil, err
	}
	if err := w.require(c); err != nil {
		return nil, err
	}
	if w.sasl = c.SASL; w.sasl != nil {
		if err := w.Authenticate(ctx, func(req protocol.Message) (protocol.Message, error) {
			return w.RoundTrip(req, c.DialTimeout)
		}); err != nil {
			return nil, err
		}
	}
	if err := w.identify(c); err != nil {
		return nil, err
	}
	w.opening = false
	return w, nil
}

// DialNet connects to a broker, with TLS if the cluster has it, and sends nothing.
func (c *Cluster) DialNet(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	nc, err := c.Dial(ctx, "tcp", addr)
	if err != nil || c.TLS == nil {
		return nc, err
	}
	tc, err := c.handshakeTLS(ctx, nc, addr)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return tc, nil
}

// silence replaces the error of a connection on which nothing came until the time was over. The reason is then that the
// far side does not answer, whatever the read said that was cut short.
func (c *Cluster) silence(ctx context.Context, addr string, lasted time.Duration, err error) error {
	var s *Silence
	switch {
	case errors.As(err, &s):
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		s = &Silence{Addr: addr, For: min(lasted, c.DialTimeout), Opening: true, Answered: c.Answers.Last(addr)}
	default:
		return err
	}
	var de *DialError
	remedy := s.Remedy().Next
	if s.Answered.IsZero() && errors.As(err, &de) && de.Remedy != "" {
		remedy = de.Remedy // what was tried last is the best guess
	}
	return &DialError{sink.BrokerUnreachable, s, remedy, addr}
}

func (c *Cluster) handshakeTLS(ctx context.Context, nc net.Conn, addr string) (net.Conn, error) {
	conf := c.TLS.Clone()
	if c.Roots != nil {
		var err error
		if conf.RootCAs, err = c.Roots(); err != nil {
			return nil, &DialError{
				sink.NotAuthenticated, fmt.Errorf("the CA of the brokers cannot be read: %w", err),
				"Put a file with the CA's certificate at kafka.tls.ca. It is read at each connect.", "",
			}
		}
	}
	if conf.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, &DialError{sink.BrokerUnreachable, err, "", ""}
		}
		conf.ServerName = host
	}
	tc := tls.Client(nc, conf)
	err := tc.HandshakeContext(ctx)
	if err == nil {
		return tc, nil
	}

	remedy := "Check kafka.tls and that the broker's listener on this port speaks TLS."
	kind := sink.NotAuthenticated
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		remedy = "Give the CA that signed the broker's certificate in kafka.tls."
	case errors.As(err, &hostname):
		remedy = "The broker's certificate must name the host in its advertised.listeners; issue a new one or set " +
			"the server name in kafka.tls."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		remedy = "Renew the broker's certificate, or correct the clock of this machine."
	case ctx.Err() != nil:
		kind = sink.BrokerUnreachable
	}
	return nil, &DialError{kind, fmt.Errorf("TLS handshake with %s: %w", addr, err), remedy, addr}
}

// negotiate asks the broker which versions it speaks and takes the highest that both sides know (KIP-35).
func (w *Conn) negotiate(timeout time.Duration) error {
	w.versions[protocol.ApiVersions] = 0 // every broker answers version 0
	res, err := w.RoundTrip(&apiversions.Request{}, timeout)
	if err != nil {
		return &DialError{
			sink.BrokerUnreachable, err, "Check that this is a Kafka listener, and whether it expects TLS or SASL.",
			w.Addr,
		}
	}
	answer := res.(*apiversions.Response)
	if v := VerdictOf(answer.ErrorCode); v.Action != Done {
		return &DialError{sink.BrokerUnreachable, fmt.Errorf("ApiVersions of %s: %s", w.Addr, v.Name), "", ""}
	}
	for _, offered := range answer.ApiKeys {
		key := protocol.ApiKey(offered.ApiKey)
		w.offered[key] = versionRange{offered.MinVersion, offered.MaxVersion}
		version := min(key.MaxVersion(), offered.MaxVersion)
		if version >= max(key.MinVersion(), offered.MinVersion) {
			w.versions[key] = version
		}
	}
	w.versions[protocol.ApiVersions] = 0
	// kafka-go encodes version 3 of AddOffsetsToTxn with the group as a string of the older versions.
	if v, ok := w.versions[protocol.AddOffsetsToTxn]; ok {
		w.versions[protocol.AddOffsetsToTxn] = min(v, 2)
	}
	return nil
}
