package config

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The mechanisms that need more than a name and a password.
const (
	oauthBearer = "OAUTHBEARER"
	awsMSKIAM   = "AWS_MSK_IAM"
)

// SASL configures the authentication to Kafka.
type SASL struct {
	// SASL mechanism. Empty: no authentication. `OAUTHBEARER` shows a token, see `kafka.sasl.oauth`. `AWS_MSK_IAM` is
	// for Amazon MSK with IAM, see `kafka.sasl.aws`. Kerberos (GSSAPI) is not supported; docs/authentication.md says
	// what to do instead.
	Mechanism string `key:"mechanism" oneof:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|AWS_MSK_IAM"`

	// User name for PLAIN and SCRAM.
	Username Secret `key:"username" example:"cdc-outbox"`

	// Password for PLAIN and SCRAM.
	Password Secret `key:"password" example:"@/run/secrets/kafka-password"`

	// Tokens for `OAUTHBEARER`, from a token endpoint or from a file.
	OAuth OAuth `key:"oauth"`

	// Credentials of AWS for `AWS_MSK_IAM`.
	AWS AWS `key:"aws"`
}

// OAuth names the source of the tokens for OAUTHBEARER: the token endpoint of an identity provider, with the grant
// client_credentials, or a file. A connection logs in again with a newer token before its session ends.
type OAuth struct {
	// Address of the token endpoint. The next token is requested before the present token ends. While the endpoint is
	// down, open connections are used until their sessions end.
	TokenURL string `key:"token_url" example:"https://login.example.com/oauth2/token"`

	// Client's id at the identity provider.
	ClientID string `key:"client_id" example:"cdc-outbox"`

	// Client's secret at the identity provider. It is read again for each token.
	ClientSecret Secret `key:"client_secret" example:"@/run/secrets/kafka-client-secret"`

	// Scopes to ask for.
	Scopes []string `key:"scopes" example:"kafka.write,kafka.describe"`

	// Parameter `audience` of the request, which some identity providers need. Empty: none.
	Audience string `key:"audience" example:"kafka-prod"`

	// PEM file with the authorities that may sign the certificate of the token endpoint. It is read again for each
	// connection. Empty: the authorities of the system.
	CA string `key:"ca" example:"/etc/kafka/identity-ca.pem"`

	// File with a token, in place of the token endpoint. It is read again for each authentication, so another program
	// has to write a new token into it before the old one ends.
	TokenFile string `key:"token_file" example:"/var/run/secrets/kafka/token"`

	// SASL extensions, by name. Confluent Cloud needs `logicalCluster` and `identityPoolId`. A mapping in the file,
	// JSON in a variable or flag.
	Extensions map[string]string `key:"extensions" example:"{\"logicalCluster\": \"lkc-1\"}"`
}

// AWS says whose credentials sign in to Amazon MSK. They are found as in every program with AWS's library: in the
// variables `AWS_…`, the shared files, as a web identity (IRSA), from EKS pod identity or ECS, from the instance.
type AWS struct {
	// Region of the cluster. Empty: the region of the environment or the profile.
	Region string `key:"region" example:"eu-central-1"`

	// Profile in the shared files. Empty: that of the environment.
	Profile string `key:"profile" example:"kafka"`

	// Role to assume with the credentials found, for a cluster of another account. Empty: none.
	RoleARN string `key:"role_arn" example:"arn:aws:iam::111122223333:role/kafka-writer"`

	// External id that the role's trust policy asks for. Empty: none.
	ExternalID string `key:"external_id"`
}

// setting is a key of this file and whether it has a value.
type setting struct {
	key string
	set bool
}

func (s *SASL) named() []setting {
	return []setting{{"kafka.sasl.username", s.Username.IsSet()}, {"kafka.sasl.password", s.Password.IsSet()}}
}

func (o *OAuth) settings() []setting {
	return append(o.endpoint(), setting{"kafka.sasl.oauth.token_file", o.TokenFile != ""},
		setting{"kafka.sasl.oauth.extensions", len(o.Extensions) > 0})
}

func (o *OAuth) endpoint() []setting {
	return []setting{
		{"kafka.sasl.oauth.token_url", o.TokenURL != ""},
		{"kafka.sasl.oauth.client_id", o.ClientID != ""},
		{"kafka.sasl.oauth.client_secret", o.ClientSecret.IsSet()},
		{"kafka.sasl.oauth.scopes", len(o.Scopes) > 0},
		{"kafka.sasl.oauth.audience", o.Audience != ""},
		{"kafka.sasl.oauth.ca", o.CA != ""},
	}
}

func (a *AWS) settings() []setting {
	return []setting{
		{"kafka.sasl.aws.region", a.Region != ""},
		{"kafka.sasl.aws.profile", a.Profile != ""},
		{"kafka.sasl.aws.role_arn", a.RoleARN != ""},
		{"kafka.sasl.aws.external_id", a.ExternalID != ""},
	}
}

func (l *loader) sasl(k *Kafka) {
	s := &k.SASL
	belongs := func(all []setting, mechanisms ...string) {
		for _, one := range all {
			switch {
			case !one.set || slices.Contains(mechanisms, s.Mechanism):
			case s.Mechanism == "":
				l.fail(one.key, "", "is set while kafka.sasl.mechanism is empty; name the mechanism")
			default:
				l.fail(one.key, "", "is set and has no use with kafka.sasl.mechanism %s; it belongs to %s", s.Mechanism,
					strings.Join(mechanisms, ", "))
			}
		}
	}
	belongs(s.named(), "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	belongs(s.OAuth.settings(), oauthBearer)
	belongs(s.AWS.settings(), awsMSKIAM)
	switch s.Mechanism {
	case "":
	case oauthBearer:
		l.oauth(&s.OAuth)
	case awsMSKIAM:
		l.aws(k)
	default:
		l.required(s.named(), "kafka.sasl.mechanism "+s.Mechanism+" needs it")
	}
}

func (l *loader) required(all []setting, why string) {
	for _, one := range all {
		if !one.set {
			l.fail(one.key, "", "is empty; %s", why)
		}
	}
}

func (l *loader) oauth(o *OAuth) {
	switch {
	case o.TokenFile != "":
		for _, one := range o.endpoint() {
			if one.set {
				l.fail(one.key, "", "is set together with kafka.sasl.oauth.token_file; "+
					"a token comes from one of the two")
			}
		}
		if _, err := o.Token().Read(); err != nil {
			l.fail("kafka.sasl.oauth.token_file", "a file with a token", "cannot be read: %s", err.Error())
		}
	case o.TokenURL == "":
		l.fail("kafka.sasl.oauth.token_url", "", "is empty, and so is kafka.sasl.oauth.token_file; "+
			"kafka.sasl.mechanism OAUTHBEARER needs one of them")
	default:
		l.required(o.endpoint()[1:3], "kafka.sasl.oauth.token_url needs it")
		u, err := url.Parse(o.TokenURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
			l.fail("kafka.sasl.oauth.token_url", "https://…", "is not the address of a token endpoint")
		}
		if o.CA != "" {
			if _, err := readPool(o.CA); err != nil {
				l.fail("kafka.sasl.oauth.ca", "a PEM file", "%s", err.Error())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Extensions)) {
		if err := checkExtension(name, o.Extensions[name]); err != nil {
			l.fail("kafka.sasl.oauth.extensions", "", "%s", err.Error())
		}
	}
}

func (l *loader) aws(k *Kafka) {
	if !k.TLS.Enabled {
		l.fail("kafka.sasl.mechanism", "", "AWS_MSK_IAM needs kafka.tls.enabled; Amazon MSK offers IAM with TLS only")
	}
	a := &k.SASL.AWS
	if a.RoleARN != "" && !strings.HasPrefix(a.RoleARN, "arn:") {
		l.fail("kafka.sasl.aws.role_arn", "arn:aws:iam::…:role/…", "is not the ARN of a role")
	}
	if a.ExternalID != "" && a.RoleARN == "" {
		l.fail("kafka.sasl.aws.external_id", "", "is set while kafka.sasl.aws.role_arn is empty")
	}
}

// Token reads the file of a token as it is now.
func (o *OAuth) Token() Secret { return Secret{path: o.TokenFile} }

// Client is for the token endpoint, nil for the default client.
func (o *OAuth) Client() (*http.Client, error) {
	if o.CA == "" {
		return nil, nil
	}
	pool, err := readPool(o.CA)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool} // behind a proxy
	transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		pool, err := readPool(o.CA) // again for each connection: a CA is rotated, too
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}).DialContext(ctx, network,
			addr)
	}
	return &http.Client{Transport: transport}, nil
}

// The allowed names and values of extensions (KIP-342).
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]+$`)
)

func checkExtension(name, value string) error {
	switch {
	case name == "auth":
		return errors.New("names an extension auth, which is the place of the token")
	case !extensionName.MatchString(name):
		return fmt.Errorf("names an extension %q; a name has letters only", name)
	case !extensionValue.MatchString(value):
		return fmt.Errorf("has an extension %s that is empty or is not printable ASCII", name)
	}
	return nil
}

// inTheClear warns of secrets that cross the network as they are.
func inTheClear(k *Kafka) (w []string) {
	switch m := k.SASL.Mechanism; {
	case k.TLS.Enabled:
	case m == "PLAIN":
		w = append(w, "kafka.sasl.mechanism PLAIN without kafka.tls.enabled sends the password in the clear")
	case m == oauthBearer:
		w = append(w, "kafka.sasl.mechanism OAUTHBEARER without kafka.tls.enabled sends the token in the clear")
	}
	if inClear(k.SASL.OAuth.TokenURL) {
		w = append(w, "kafka.sasl.oauth.token_url is not https: the client's secret crosses the network in the clear")
	}
	return w
}
