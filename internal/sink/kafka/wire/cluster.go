package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Cluster is where the brokers are and how to connect to them. Only Brokers is required.
type Cluster struct {
	// Brokers are the bootstrap addresses, host:port.
	Brokers []string

	// ClientID names the connections in the brokers' logs and quotas. Default "cdc-outbox".
	ClientID string

	// TLS, when set, is used for every connection; ServerName defaults to the broker's host. There is no fallback
	// to plain text. Default nil: plain text.
	TLS *tls.Config

	// Roots, when set, is called at each connect with TLS, so that a rotated CA is seen. Default: TLS.RootCAs.
	Roots func() (*x509.CertPool, error)

	// SASL, when set, authenticates every connection. Default nil.
	SASL *SASL

	// RequestTimeout is how long a broker may take to answer a request. Default 30 s.
	RequestTimeout time.Duration

	// DialTimeout bounds connecting, including TLS and SASL. Default 10 s.
	DialTimeout time.Duration

	// Dial opens the network connections. Default net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Transactional asks for brokers that know the requests of transactions.
	Transactional bool

	// Answers remembers when each broker answered last, so that a broker that hangs is not mistaken for a listener
	// of another protocol. Default: a memory of the cluster's own.
	Answers *Answers

	// Identity is the cluster of every connection. Default: one of this value's copies from here on.
	Identity *Identity
}

// SASL is how to authenticate towards the brokers.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM
	Username  string // as it is in commands for operators
	// User is called at each connect, so that a rotated name is seen. Default: Username.
	User func() (string, error)
	// Password is called at each connect, so that a rotated password is seen.
	Password func() (string, error)

	// Tokens are for OAUTHBEARER and AWS_MSK_IAM, in place of name and password.
	Tokens Tokens
	// Extensions go with each token of OAUTHBEARER.
	Extensions map[string]string
}

// SetDefaults fills in the fields that are not set.
func (c *Cluster) SetDefaults() {
	c.ClientID = cmp.Or(c.ClientID, "cdc-outbox")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.DialTimeout = cmp.Or(c.DialTimeout, 10*time.Second)
	if c.Answers == nil {
		c.Answers = &Answers{}
	}
	if c.Identity == nil {
		c.Identity = &Identity{}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
}

// Validate reports everything that is wrong at once, with the problems that the caller found, as a *fault.Error of kind
// Config.
func (c *Cluster) Validate(others ...error) error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no broker address"))
	}
	for _, addr := range c.Brokers {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("broker address %q is not host:port", addr))
		}
	}
	if c.SASL != nil {
		errs = append(errs, c.SASL.validate())
	}
	if err := errors.Join(append(errs, others...)...); err != nil {
		return &fault.Error{
			Kind: fault.Config, Object: "kafka", Err: err,
			Next: "Correct the kafka section of the configuration.",
		}
	}
	return nil
}
