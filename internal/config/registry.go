package config

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Registry frames payloads for a schema registry.
type Registry struct {
	// Column with the id of the payload's schema in a schema registry. The record value then starts with
	// Confluent's frame: a zero byte, then the id in four bytes. The payload, which the application has encoded,
	// follows unchanged. Empty: no frame, unless `router.registry.url` is set.
	SchemaIDColumn string `key:"schema_id_column" example:"schema_id"`

	// Address of a schema registry with Confluent's API. The id for the frame is looked up there once for each subject
	// and version, in place of `router.registry.schema_id_column`; see docs/schema-registry.md. Nothing is registered.
	URL string `key:"url" example:"https://registry.example.com"`

	// Subject of a row's schema, with the placeholders of `router.topic`, and `${topic}` for the record's topic.
	Subject string `key:"subject" default:"${topic}-value" example:"${topic}-${type}"`

	// Encode payloads by the schema that the id belongs to: the payload column holds JSON, and the record value has the
	// frame and the payload as Avro, as Protobuf, or as JSON that the schema allows. It needs `router.registry.url`.
	// Off: the application encodes payloads.
	Encode bool `key:"encode" default:"false"`

	// Column with the version of the subject that the payload was encoded with, or is to be encoded with: a number, or
	// `latest`. Empty: the latest version. Without `router.registry.encode` that is right only if every version can be
	// read in place of every other.
	VersionColumn string `key:"version_column" example:"schema_version"`

	// How often the latest version of a subject is asked for again, in the background. A version with a number never
	// changes.
	Refresh time.Duration `key:"refresh" default:"1m"`

	// File in which ids are kept across restarts, so that a restart while the registry is away goes on with the schemas
	// that were known. It holds subjects and ids, and schemas with `router.registry.encode`. Its directory must exist
	// and be writable. Empty: ids are kept in memory only.
	Cache string `key:"cache" example:"/var/lib/cdc-outbox/schemas.json"`

	// User name for the registry (HTTP basic authentication). It is read again for each request.
	Username Secret `key:"username" example:"cdc-outbox"`

	// Password for the registry. It is read again for each request.
	Password Secret `key:"password" example:"@/run/secrets/registry-password"`

	// Encryption of the connections to the registry, beyond what an address with `https` gives.
	TLS TLS `key:"tls"`

	// Encoding of the payload. `protobuf` adds the indexes of the message within its schema after the id.
	Format string `key:"format" default:"avro" oneof:"avro|json|protobuf"`

	// With `protobuf`, which message of the schema the payload is: its index among the messages of the file, from 0,
	// and for a nested message the index at each level, as in `2,0`.
	MessageIndexes string `key:"message_indexes" default:"0" example:"2,0"`

	// Column with the indexes in the same form, for tables with several messages. NULL:
	// `router.registry.message_indexes` applies.
	MessageIndexesColumn string `key:"message_indexes_column" example:"message_indexes"`
}

// registry checks the address, and that only one of the two ways to an id is chosen.
func (l *loader) registry(g *Registry) {
	l.tls("router.registry.tls.", &g.TLS)
	if g.Username.IsSet() != g.Password.IsSet() {
		l.fail("router.registry.password", "",
			"router.registry.username and router.registry.password belong together; one of them is empty")
	}
	l.atLeast("router.registry.refresh", int64(g.Refresh), int64(time.Second), "a duration from 1s")
	if g.URL == "" {
		if g.Encode {
			l.fail("router.registry.encode", "", "needs the schemas of router.registry.url, which is empty")
		}
		return
	}
	if g.SchemaIDColumn != "" {
		l.fail("router.registry.url", "", "is set together with router.registry.schema_id_column; an id comes from "+
			"one of the two")
	}
	if g.Subject == "" {
		l.fail("router.registry.subject", "", "must not be empty")
	}
	u, err := url.Parse(g.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery+u.Fragment != "":
		l.fail("router.registry.url", "https://…", "is not the address of a schema registry")
	case u.User != nil:
		l.fail("router.registry.url", "https://…", "holds a login; set router.registry.username and "+
			"router.registry.password")
	case g.TLS.Enabled && u.Scheme == "http":
		l.fail("router.registry.url", "https://…", "is not https while router.registry.tls.enabled is true")
	}
}

// warnings are about settings without effect, and secrets that cross the network as they are.
func (g *Registry) warnings() (w []string) {
	unused := func(key, why string) {
		w = append(w, "router.registry."+key+" has no effect while "+why)
	}
	if g.SchemaIDColumn == "" && g.URL == "" {
		if g.Format != "avro" {
			unused("format", "router.registry.url and router.registry.schema_id_column are empty")
		}
	}
	if g.URL == "" {
		for _, one := range []setting{
			{"subject", g.Subject != plain().Router.Registry.Subject},
			{"version_column", g.VersionColumn != ""},
			{"cache", g.Cache != ""},
			{"username", g.Username.IsSet()},
			{"tls", g.TLS.Enabled},
		} {
			if one.set {
				unused(one.key, "router.registry.url is empty")
			}
		}
	}
	if g.Format != "protobuf" && (g.MessageIndexes != plain().Router.Registry.MessageIndexes ||
		g.MessageIndexesColumn != "") {
		unused("message_indexes", "router.registry.format is "+g.Format)
	}
	if g.TLS.InsecureSkipVerify {
		w = append(w, "router.registry.tls.insecure_skip_verify is on: "+
			"anyone on the network path to the registry can choose the ids of all records")
	}
	if g.Username.IsSet() && inClear(g.URL) {
		w = append(w, "router.registry.url is not https: the password crosses the network in the clear")
	}
	return w
}

// inClear reports whether requests to the address leave this host as they are.
func inClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Client is for requests to the registry.
func (g *Registry) Client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	cfg, err := g.TLS.Build()
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = cfg // behind a proxy
	if cfg != nil {
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			cfg, err := g.TLS.Build() // again for each connection: files are rotated
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, addr)
		}
	}
	return &http.Client{Transport: transport}, nil
}
