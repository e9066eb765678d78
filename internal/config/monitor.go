package config

import (
	"net/url"
	"time"
)

// Monitor watches the slot over an SQL connection of its own.
type Monitor struct {
	Interval         time.Duration `key:"interval" default:"5s" doc:"How often the slot is looked at."`
	WarnRetained     Size          `key:"warn_retained" default:"1GiB" doc:"Warn when the slot holds back more WAL than this."`
	CriticalRetained Size          `key:"critical_retained" default:"10GiB" doc:"Critical when the slot holds back more WAL than this."`
	WALVolume        Size          `key:"wal_volume" default:"0" example:"100GiB" doc:"Size of the volume that holds pg_wal, which no SQL tells. With it, the time until it is full is forecast. 0: not known. A role with pg_monitor lets everything in pg_wal count, else only what the slot holds back does."`
	RepeatInterval   time.Duration `key:"repeat_interval" default:"1h" doc:"An alert that still fires is told again in log and webhook after so long."`
	Webhook          Secret        `key:"webhook" example:"@/run/secrets/webhook" doc:"URL that alerts are posted to. It is never shown; one in a file is read again for each request."`
	WebhookFormat    string        `key:"webhook_format" default:"json" oneof:"json|alertmanager|slack" doc:"What is posted: json, an object with alert, state, level, slot, figures, cause and runbook; alertmanager, to Alertmanager's API v2, whose path is added to the URL; slack, a message to an incoming webhook."`
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
