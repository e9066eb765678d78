package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
	// topicName is what Kafka accepts (org.apache.kafka.common.internals.Topic): 249 characters of these, not . or ..
	topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// validate checks what can be checked without asking Postgres or Kafka.
func (l *loader) validate(c *Config) {
	l.postgres(&c.Postgres)
	l.source(c)
	l.router(&c.Router)
	l.kafka(&c.Kafka)
	l.atLeast("window.records", int64(c.Window.Records), 1, "a number from 1")
	l.atLeast("window.bytes", int64(c.Window.Bytes), 1, "a size above 0")
	l.atLeast("monitor.interval", int64(c.Monitor.Interval), int64(100*time.Millisecond), "a duration from 100ms")
	l.atLeast("monitor.warn_retained", int64(c.Monitor.WarnRetained), 1, "a size above 0")
	if !l.bad["monitor.warn_retained"] && c.Monitor.WarnRetained >= c.Monitor.CriticalRetained {
		l.fail("monitor.critical_retained", "a size above "+c.Monitor.WarnRetained.String(),
			"is not above monitor.warn_retained (%s)", c.Monitor.WarnRetained)
	}
	l.atLeast("monitor.repeat_interval", int64(c.Monitor.RepeatInterval), int64(time.Second), "a duration from 1s")
	if !c.HTTP.Off() {
		l.address("http.listen", c.HTTP.Listen, true)
	}
	l.atLeast("http.stall", int64(c.HTTP.Stall), int64(time.Second), "a duration from 1s")
	l.atLeast("traces.limit", int64(c.Traces.Limit), 0, "a number from 0")
	for _, f := range fields() {
		if f.Secret() {
			l.secret(f.Key, c)
		}
	}
	l.webhook(c.Monitor.Webhook)
}

// webhook does not repeat the URL, which is a secret.
func (l *loader) webhook(s Secret) {
	text, err := s.Read()
	if !s.IsSet() || err != nil {
		return // what cannot be read was said
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		l.fail("monitor.webhook", "an http:// or https:// URL", "is not a URL that can be posted to")
	}
}

func (l *loader) postgres(p *Postgres) {
	if !slotName.MatchString(p.Slot) {
		l.fail("postgres.slot", "1 to 63 of a-z, 0-9 and _", "is not a name for a replication slot")
	}
	if p.Publication == "" || len(p.Publication) > 63 || strings.ContainsRune(p.Publication, 0) {
		l.fail("postgres.publication", "1 to 63 bytes", "is not a name for a publication")
	}
	tables := len(p.OutboxTables()) > 0
	if !tables && len(p.Messages) == 0 {
		l.fail("postgres.tables", "schema.table, one or more", "names no table, and postgres.messages no prefix")
	}
	if p.Snapshot == "initial" && (!tables || len(p.Slot) > 43) {
		l.fail("postgres.snapshot", "", "needs postgres.tables, and a slot whose name has 43 bytes at most")
	}
	l.hotStandby(p)
	for i, prefix := range p.Messages {
		if strings.ContainsRune(prefix, 0) || slices.Contains(p.Messages[:i], prefix) {
			l.fail("postgres.messages", "", "names %q twice, or no prefix that Postgres takes", prefix)
		}
	}
	for i, t := range p.Tables {
		if slices.Contains(p.Tables[:i], t) {
			l.fail("postgres.tables", "", "names %s twice", t)
		}
	}
}

// hotStandby refuses what cannot be had from a server that nothing can be written to, rather than doing without it unasked.
func (l *loader) hotStandby(p *Postgres) {
	if !p.HotStandby {
		if p.PrimaryDSN.IsSet() {
			l.fail("postgres.primary_dsn", "", "is set while postgres.hot_standby is false; events are read from where postgres.dsn leads")
		}
		return
	}
	if !p.PrimaryDSN.IsSet() && p.CheckpointTable() != "" {
		l.fail("postgres.primary_dsn", "", "is not set, and a standby cannot remember how far the slot is confirmed; set it, or postgres.checkpoint to off, which leaves a slot that was made anew or moved by hand unnoticed")
	}
	if p.Failover {
		l.fail("postgres.failover", "", "is set together with postgres.hot_standby; Postgres does not synchronise slots that were made on a standby")
	}
	if p.Snapshot == "initial" {
		l.fail("postgres.snapshot", "", "is initial together with postgres.hot_standby; the list of rows that it takes can only be written on a primary")
	}
}

func (l *loader) kafka(k *Kafka) {
	if len(k.Brokers) == 0 {
		l.fail("kafka.brokers", "host:port, one or more", "names no broker")
	}
	for _, b := range k.Brokers {
		l.address("kafka.brokers", b, false)
	}
	l.topics(&k.Topics)
	l.tls(&k.TLS)
	l.sasl(&k.SASL)
}

// tls refuses half a setting: a certificate with TLS off would send everything in the clear while its owner believes
// otherwise.
func (l *loader) tls(t *TLS) {
	if !t.Enabled {
		for _, other := range []struct {
			key string
			set bool
		}{
			{"kafka.tls.ca", t.CA != ""},
			{"kafka.tls.cert", t.Cert != ""},
			{"kafka.tls.key", t.Key != ""},
			{"kafka.tls.server_name", t.ServerName != ""},
			{"kafka.tls.insecure_skip_verify", t.InsecureSkipVerify},
		} {
			if other.set {
				l.fail(other.key, "", "is set while kafka.tls.enabled is false; set kafka.tls.enabled to true")
			}
		}
		return
	}
	if (t.Cert == "") != (t.Key == "") {
		l.fail("kafka.tls.cert", "", "kafka.tls.cert and kafka.tls.key belong together; one of them is empty")
	}
	if key, err := t.check(); err != nil {
		l.fail(key, "a PEM file", "%s", err.Error())
	}
}

func (l *loader) sasl(s *SASL) {
	for _, part := range []struct {
		key    string
		secret Secret
	}{{"kafka.sasl.username", s.Username}, {"kafka.sasl.password", s.Password}} {
		switch {
		case s.Mechanism != "" && !part.secret.IsSet():
			l.fail(part.key, "", "is empty; kafka.sasl.mechanism %s needs it", s.Mechanism)
		case s.Mechanism == "" && part.secret.IsSet():
			l.fail(part.key, "", "is set while kafka.sasl.mechanism is empty; name the mechanism")
		}
	}
}

// secret makes sure that one in a file can be read.
func (l *loader) secret(key string, c *Config) {
	if _, err := secretOf(c, key).Read(); err != nil {
		l.fail(key, "", "cannot be read: %s", err.Error())
	}
}

func secretOf(c *Config, key string) Secret {
	switch key {
	case "postgres.dsn":
		return c.Postgres.DSN
	case "postgres.primary_dsn":
		return c.Postgres.PrimaryDSN
	case "kafka.sasl.username":
		return c.Kafka.SASL.Username
	case "kafka.sasl.password":
		return c.Kafka.SASL.Password
	case "monitor.webhook":
		return c.Monitor.Webhook
	case "traces.headers":
		return c.Traces.Headers
	default:
		panic("config: no secret " + key) // a new secret; found by any test that loads a configuration
	}
}

func (l *loader) atLeast(key string, value, least int64, allowed string) {
	if value < least {
		l.fail(key, allowed, "is too small")
	}
}

// address checks host:port. A listener may leave the host out, for all interfaces, and take port 0, for any.
func (l *loader) address(key, s string, listener bool) {
	allowed := "host:port"
	if listener {
		allowed += ", :port or " + off
	}
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || perr != nil:
		l.fail(key, allowed, "%q is not host:port", s)
	case !listener && (host == "" || n == 0), strings.ContainsAny(host, "/@ "):
		l.fail(key, allowed, "%q is not host:port", s)
	}
}

// warnings are about what is allowed but unwise.
func warnings(c *Config) []string {
	var w []string
	if c.Kafka.TLS.InsecureSkipVerify {
		w = append(w, "kafka.tls.insecure_skip_verify is on: whoever stands between here and Kafka can read and change every record")
	}
	if c.Kafka.SASL.Mechanism == "PLAIN" && !c.Kafka.TLS.Enabled {
		w = append(w, "kafka.sasl.mechanism PLAIN without kafka.tls.enabled sends the password in the clear")
	}
	if t := &c.Kafka.Topics; !t.Create && len(t.Config)+len(t.Rules) > 0 {
		w = append(w, "kafka.topics.config and kafka.topics.rules have no effect while kafka.topics.create is false")
	}
	if host, _, err := net.SplitHostPort(c.HTTP.Listen); err == nil {
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			w = append(w, "http.listen is reachable from other hosts, and the server has no authentication: keep the network private")
		}
	}
	return append(w, unusedFormatKeys(&c.Router)...)
}

// unusedFormatKeys names sections that belong to a format which is not in force.
func unusedFormatKeys(r *Router) []string {
	var w []string
	unused := func(section, format string) {
		w = append(w, "router."+section+" has no effect while router.format is "+r.Format+"; it belongs to "+format)
	}
	if r.Preset == PresetDebezium {
		return nil // refused
	}
	if ce := &r.CloudEvents; !strings.HasPrefix(r.Format, "cloudevents_") && (ce.Source != "" || ce.DataSchema != "" || len(ce.Extensions) > 0) {
		unused("cloudevents", "cloudevents_binary and cloudevents_structured")
	}
	if e := r.Envelope; r.Format != "envelope" && e != (Envelope{VersionColumn: "event_version", Version: "1", TraceIDColumn: "trace_id"}) {
		unused("envelope", "envelope")
	}
	if r.Registry.SchemaIDColumn == "" && r.Registry.Format != "avro" {
		w = append(w, "router.registry.format has no effect while router.registry.schema_id_column is empty")
	}
	return w
}
