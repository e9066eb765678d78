package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
)

// NATS takes servers, login and stream from the configuration.
func NATS(c *config.Loaded) nats.Cluster {
	n := &c.NATS
	out := nats.Cluster{
		Servers: n.Servers, ClientName: n.ClientName, Stream: n.Stream, TLS: n.TLS.Build,
		Login: nats.Login{
			Credentials: n.Credentials, NKey: n.NKey, User: n.Username.Read, Password: n.Password.Read,
			Token: n.Token.Read,
		},
	}
	if n.Create {
		out.Create = &nats.Creation{Subjects: n.Subjects, Replicas: n.Replicas}
	}
	return out
}
