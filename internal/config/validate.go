package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// validate makes the checks that need no answer from Postgres or Kafka.
func (l *loader) validate(c *Config) {
	l.postgres(&c.Postgres)
	l.others(c)
	l.source(c)
	l.router(&c.Router)
	l.sink(c)
	l.onGap(c)
	l.atLeast("window.records", int64(c.Window.Records), 1, "a number from 1")
	l.atLeast("window.bytes", int64(c.Window.Bytes), 1, "a size above 0")
	l.atLeast("window.row", int64(c.Window.Row), 1<<20, "a size from 1MiB")
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
			l.secret(f, c)
		}
	}
	l.webhook(c.Monitor.Webhook)
	l.runbook(c.Monitor.RunbookURL)
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
	if err == nil && perr == nil && (listener || host != "" && n != 0) && !strings.ContainsAny(host, "/@ ;") {
		return
	}
	hint := ""
	switch {
	case strings.Contains(s, "://"):
		hint = "; leave out the scheme"
	case !listener && strings.ContainsAny(s, "; "):
		hint = "; write commas between several"
	}
	l.fail(key, allowed, "%s is not host:port%s", quote(s), hint)
}

// warnings returns sentences about allowed but unwise settings.
func warnings(c *Config) []string {
	var w []string
	if c.Kafka.TLS.InsecureSkipVerify {
		w = append(w, "kafka.tls.insecure_skip_verify is on: "+
			"anyone on the network path to Kafka can read and change every record")
	}
	if c.NATS.TLS.InsecureSkipVerify {
		w = append(w, "nats.tls.insecure_skip_verify is on: "+
			"anyone on the network path to NATS can read and change every record")
	}
	if n := &c.NATS; !n.TLS.Enabled && (n.Password.IsSet() || n.Token.IsSet()) {
		w = append(w, "nats.password or nats.token is sent without encryption: set nats.tls.enabled to true, or log "+
			"in with nats.credentials or nats.nkey, which send no secret")
	}
	if c.RabbitMQ.TLS.InsecureSkipVerify {
		w = append(w, "rabbitmq.tls.insecure_skip_verify is on: "+
			"anyone on the network path to RabbitMQ can read and change every record")
	}
	if r := &c.RabbitMQ; !r.TLS.Enabled && r.Password.IsSet() {
		w = append(w, "rabbitmq.password is sent without encryption: set rabbitmq.tls.enabled to true")
	}
	w = append(w, inTheClear(&c.Kafka)...)
	if t := &c.Kafka.Topics; !t.Create && len(t.Config)+len(t.Rules) > 0 {
		w = append(w, "kafka.topics.config and kafka.topics.rules have no effect while kafka.topics.create is false")
	}
	if host, _, err := net.SplitHostPort(c.HTTP.Listen); err == nil {
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			w = append(w, "http.listen is reachable from other hosts, and the server has no authentication: "+
				"keep the network private")
		}
	}
	return append(w, unusedFormatKeys(&c.Router)...)
}
