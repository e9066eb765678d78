package config

import (
	"net/url"
	"regexp"
	"strings"
)

// NATS names the JetStream stream that receives the records.
type NATS struct {
	// Servers to connect to, as URLs. List several of a cluster: only these are connected to.
	Servers []string `key:"servers" default:"nats://127.0.0.1:4222" example:"nats://n1:4222,nats://n2:4222"`

	// JetStream stream that takes the events. Its subjects must cover every name that `router.topic` gives, and
	// the dead-letter topic. One connector writes into it, and nothing else does: the last message in it says
	// how far the connector has come.
	Stream string `key:"stream" default:"OUTBOX" example:"ORDERS"`

	// Create the stream if it does not exist: in files, without limits, with the subjects and replicas named below.
	Create bool `key:"create" default:"false"`

	// Subjects of a stream that is created.
	Subjects []string `key:"subjects" example:"outbox.>,cdc-outbox.dead-letter"`

	// Replicas of a stream that is created: 1, 3 or 5.
	Replicas int `key:"replicas" default:"3"`

	// Name that the connection carries in the servers' monitoring.
	ClientName string `key:"client_name" default:"cdc-outbox" example:"cdc-outbox-shop"`

	// File with the JWT and the nkey seed of the user, as `nsc` writes it. It is read again for each connection.
	Credentials string `key:"credentials" example:"/run/secrets/outbox.creds"`

	// File with the seed of the user's nkey, for servers that know users by nkey. It is read again for each connection.
	NKey string `key:"nkey" example:"/run/secrets/outbox.nk"`

	// User name of a server that asks for user and password. It is read again for each connection.
	Username Secret `key:"username" example:"outbox"`

	// Password. It is read again for each connection.
	Password Secret `key:"password" example:"@/run/secrets/nats-password"`

	// Token of a server that asks for one. It is read again for each connection.
	Token Secret `key:"token" example:"@/run/secrets/nats-token"`

	// Encryption of the connections to NATS.
	TLS TLS `key:"tls"`
}

// streamName matches the names of streams that every operating system can store in a file.
var streamName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (l *loader) nats(n *NATS) {
	if len(n.Servers) == 0 {
		l.fail("nats.servers", "URLs, one or more", "names no server")
	}
	for _, s := range n.Servers {
		l.natsServer(s, n.TLS.Enabled)
	}
	if len(n.Stream) > 255 || !streamName.MatchString(n.Stream) {
		l.fail("nats.stream", "letters, digits, _ and -", "is not the name of a stream")
	}
	if n.Create && len(n.Subjects) == 0 {
		l.fail("nats.subjects", "one or more", "names no subject for the stream that nats.create creates")
	}
	for _, s := range n.Subjects {
		if strings.HasPrefix(s, "*") || strings.HasPrefix(s, ">") {
			l.fail("nats.subjects", "a first part without a wildcard, such as outbox.>",
				"begins with a wildcard, which JetStream refuses: its own subjects would match")
		}
	}
	if n.Replicas < 1 || n.Replicas > 5 {
		l.fail("nats.replicas", "1 to 5", "is out of range")
	}
	ways := 0
	for _, set := range []bool{n.Credentials != "", n.NKey != "", n.Username.IsSet(), n.Token.IsSet()} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		l.fail("nats.credentials", "", "nats.credentials, nats.nkey, nats.username and nats.token are ways to log in; "+
			"only one can be set")
	case n.Password.IsSet() != n.Username.IsSet():
		l.fail("nats.password", "", "nats.username and nats.password belong together; one of them is empty")
	}
	l.tls("nats.tls.", &n.TLS)
}

// natsServer refuses a login inside of the URL, which would be shown with it.
func (l *loader) natsServer(server string, encrypted bool) {
	const allowed = "nats://host:port or tls://host:port"
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" || u.Path != "" || u.RawQuery != "":
		l.fail("nats.servers", allowed, "is not a list of such URLs")
	case u.User != nil:
		l.fail("nats.servers", allowed, "holds a login; set nats.username and nats.password, or nats.token")
	case u.Scheme == "tls" && !encrypted:
		l.fail("nats.servers", allowed, "asks for TLS while nats.tls.enabled is false; set nats.tls.enabled to true")
	}
}
