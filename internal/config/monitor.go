package config

import (
	"net/url"
	"strings"
	"time"
)

// Monitor configures the slot monitor and its alerts.
type Monitor struct {
	// How often the slot is sampled.
	Interval time.Duration `key:"interval" default:"5s"`

	// Warn when the slot retains more WAL than this.
	WarnRetained Size `key:"warn_retained" default:"1GiB"`

	// Raise a critical alert when the slot retains more WAL than this.
	CriticalRetained Size `key:"critical_retained" default:"10GiB"`

	// Size of the volume that holds `pg_wal`, which SQL cannot report. With this size, the monitor forecasts when
	// the volume will be full. With a role that has `pg_monitor`, the monitor counts everything in `pg_wal`; with
	// any other role, only what the slot retains. `0`: the size is unknown.
	WALVolume Size `key:"wal_volume" default:"0" example:"100GiB"`

	// An alert that is still firing is sent again, to the log and to the webhook, after this time.
	RepeatInterval time.Duration `key:"repeat_interval" default:"1h"`

	// URL that alerts are posted to. It is a secret and never shown. A URL in a file is read again for each request.
	Webhook Secret `key:"webhook" example:"@/run/secrets/webhook"`

	// What is posted. `json`: an object with `alert`, `state`, `level`, `slot`, `figures`, `cause` and `runbook`.
	// `alertmanager`: an alert for Alertmanager's API v2, whose path is added to the URL. `slack`: a message for
	// an incoming webhook.
	WebhookFormat string `key:"webhook_format" default:"json" oneof:"json|alertmanager|slack"`

	// The runbook that alerts link to, on the page and in messages. `published`: docs/runbook.md on GitHub. `self`: the
	// runbook that this process serves at `/runbook/`, for networks that do not reach GitHub. Messages then name the
	// address that the process listens on, and its host if it listens on all addresses; if `http.listen` is `off`, they
	// link to GitHub. A URL, such as `https://relay.example.com/runbook/`: `#` and the name of the alert are added.
	RunbookURL string `key:"runbook_url" default:"published" example:"self"`
}

// Values of monitor.runbook_url besides a URL.
const (
	RunbookPublished = "published"
	RunbookSelf      = "self"
)

func (l *loader) runbook(text string) {
	if text == RunbookSelf || text == RunbookPublished {
		return
	}
	const allowed = RunbookPublished + ", " + RunbookSelf + ", or an http:// or https:// URL without #"
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Contains(text, "#") {
		l.fail("monitor.runbook_url", allowed, "%s is not a URL that the name of a section can be added to",
			quote(text))
	}
}

// webhook does not repeat the URL, which is a secret.
func (l *loader) webhook(s Secret) {
	text, err := s.Read()
	if !s.IsSet() || err != nil {
		return // validate has reported an unreadable file
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		l.fail("monitor.webhook", "an http:// or https:// URL", "is not a URL that can be posted to")
	}
}
