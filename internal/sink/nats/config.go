package nats

import (
	"crypto/tls"
	"errors"

	client "github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Config is a Producer's configuration.
type Config struct {
	Cluster

	ExactlyOnce bool // refuses a stream that forgets its last message as soon as it is consumed

	Identity    *Identity   // receives the identity of the stream; nil: not needed
	Logger      *zap.Logger // required
	Reconnected func()      // each connection after the first; nil: it is not called

	sink.Callbacks
}

// Cluster is how a stream is reached.
type Cluster struct {
	Servers    []string // URLs
	ClientName string
	Stream     string
	Create     *Creation                   // nil: a stream that is missing is waited for
	Login      Login                       // zero: none
	TLS        func() (*tls.Config, error) // called for each connection; nil config: no encryption
}

// Creation is how a missing stream is created.
type Creation struct {
	Subjects []string
	Replicas int
}

// Login is the way to log in, at most one. It is read for each connection.
type Login struct {
	Credentials string // file with JWT and seed
	NKey        string // file with a seed

	User, Password, Token func() (string, error) // empty texts: not used
}

// options reads the login.
func (l Login) options() ([]client.Option, error) {
	switch {
	case l.Credentials != "":
		return []client.Option{client.UserCredentials(l.Credentials)}, nil
	case l.NKey != "":
		o, err := client.NkeyOptionFromSeed(l.NKey)
		return []client.Option{o}, err
	case l.User == nil:
		return nil, nil
	}
	user, err := l.User()
	password, perr := l.Password()
	token, terr := l.Token()
	if err := errors.Join(err, perr, terr); err != nil {
		return nil, err
	}
	var options []client.Option
	if user != "" {
		options = append(options, client.UserInfo(user, password))
	}
	if token != "" {
		options = append(options, client.Token(token))
	}
	return options, nil
}

// Open returns the function by which a source of rows opens its producer.
func Open(cfg Config) sink.Open {
	return func(c sink.Callbacks) (sink.Producer, error) {
		cfg.Callbacks = c
		if len(cfg.Servers) == 0 || cfg.Stream == "" || cfg.Logger == nil || cfg.Acked == nil {
			return nil, errors.New("nats: Servers, Stream, Logger and Acked are required")
		}
		return newProducer(cfg), nil
	}
}
