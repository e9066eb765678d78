package webhook

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

// Formats are the values of monitor.webhook_format.
var Formats = []string{"json", "alertmanager", "slack"}

type format struct {
	people bool // no receiver keeps a state that would have to be cleared
	// one request carries several, and firing alerts are repeated
	batches bool
	url     func(string) string                                               // of the request, given the setting
	body    func(events []alert.Event, now time.Time, runbook Runbook) []byte // of one request
}

var formats = map[string]format{
	"json":         {url: asItIs, body: jsonBody},
	"alertmanager": {batches: true, url: alertmanagerURL, body: alertmanagerBody},
	"slack":        {people: true, url: asItIs, body: slackBody},
}

func asItIs(u string) string { return u }

// Runbook gives the URL of the runbook's section about an alert.
type Runbook func(name string) string

// message is the body of the format json. Fields are added, not renamed.
type message struct {
	ID       string        `json:"id"` // the same for each attempt to deliver this event
	Alert    string        `json:"alert"`
	State    alert.State   `json:"state"`
	Level    alert.Level   `json:"level"`
	Repeated bool          `json:"repeated"`
	Slot     string        `json:"slot,omitempty"`
	Sentence string        `json:"sentence"`
	Since    time.Time     `json:"since"`
	Until    *time.Time    `json:"until,omitempty"` // of a resolved one
	Worse    string        `json:"superseded_by,omitempty"`
	Figures  alert.Figures `json:"figures,omitempty"`
	Cause    *alert.Cause  `json:"cause,omitempty"`
	Runbook  string        `json:"runbook"`
}

func jsonBody(events []alert.Event, _ time.Time, runbook Runbook) []byte {
	e := events[0]
	m := message{
		ID:    fmt.Sprintf("%s/%s/%s/%s/%s", e.Alert, e.Subject, e.State, e.Level, e.At.UTC().Format(time.RFC3339Nano)),
		Alert: e.Alert, State: e.State, Level: e.Level, Repeated: e.Repeated, Slot: e.Subject, Sentence: e.Sentence,
		Since: e.Since.UTC(), Worse: e.SupersededBy, Figures: e.Figures, Runbook: runbook(e.Alert),
	}
	if e.State == alert.Resolved {
		until := e.At.UTC()
		m.Until = &until
	}
	if e.Cause.Code != "" {
		m.Cause = &e.Cause
	}
	return marshal(m)
}

// alertmanagerURL takes Alertmanager's own address as well as that of its API.
func alertmanagerURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || strings.HasSuffix(u.Path, "/alerts") {
		return text
	}
	return u.JoinPath("api", "v2", "alerts").String()
}

// postable is an alert of Alertmanager's API v2 (POST /alerts, postableAlerts in its OpenAPI file).
type postable struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertmanagerBody: a firing alert ends a while after the next refresh, so that it does not fire for ever when this
// process has ended. The severity is one of the labels that identify an alert, so a change of it ends one alert and
// begins another. An alert that this process will not report again stands for a day, unless the next process ends it.
func alertmanagerBody(events []alert.Event, now time.Time, runbook Runbook) []byte {
	list := make([]postable, 0, len(events))
	for _, e := range events {
		a := postable{
			Labels:      labels(e, e.Level),
			Annotations: map[string]string{"summary": e.Sentence, "runbook_url": runbook(e.Alert)},
			StartsAt:    e.Since.UTC(), EndsAt: now.Add(4 * refresh).UTC(),
		}
		if e.Cause.Code != "" {
			a.Annotations["cause"], a.Annotations["cause_code"] = e.Cause.Sentence, e.Cause.Code
		}
		if e.Cause.Next != "" {
			a.Annotations["next"] = e.Cause.Next
		}
		if len(e.Cause.Commands) > 0 {
			a.Annotations["commands"] = e.Cause.Remedy().Script()
		}
		switch {
		case e.State == alert.Resolved:
			a.EndsAt = e.At.UTC()
		case e.Lasting:
			a.EndsAt = now.Add(24 * time.Hour).UTC()
		}
		if e.Before != alert.OK && e.Before != e.Level {
			list = append(list, postable{
				Labels: labels(e, e.Before), Annotations: a.Annotations, StartsAt: a.StartsAt,
				EndsAt: e.At.UTC(),
			})
		}
		list = append(list, a)
	}
	return marshal(list)
}

func labels(e alert.Event, level alert.Level) map[string]string {
	severity := level.String()
	if level == alert.Warn {
		severity = "warning" // the word that Alertmanager routes commonly match
	}
	l := map[string]string{"alertname": e.Alert, "severity": severity, "service": "cdc-outbox"}
	if e.Subject != "" {
		l["slot"] = e.Subject
	}
	return l
}

// slackPart is how long each sentence may be: Slack cuts a text at 40,000 characters, takes 3,000 in a section, and
// asks for less than 4,000; https://docs.slack.dev/changelog/2018-truncating-really-long-messages.
const slackPart = 800

// slackText escapes the characters of Slack's mrkdwn, and ends in time, not within an escape.
func slackText(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		part := string(r)
		switch r {
		case '&':
			part = "&amp;"
		case '<':
			part = "&lt;"
		case '>':
			part = "&gt;"
		}
		if n += utf8.RuneCountInString(part); n > slackPart {
			return b.String() + "…"
		}
		b.WriteString(part)
	}
	return b.String()
}

// slackCommands shows each command in a block of its own. One that Slack would cut or break is left out, and named as
// left out: half a command does harm.
func slackCommands(commands []string) string {
	const fence = "```"
	var b strings.Builder
	n := 0
	for _, c := range commands {
		text := slackText(c)
		if n += utf8.RuneCountInString(text); n > slackPart || strings.Contains(c, fence) || !utf8.ValidString(c) {
			return b.String() + "\n… (all commands: cdc-outbox status --why)"
		}
		b.WriteString("\n" + fence + text + fence)
	}
	return b.String()
}

func slackBody(events []alert.Event, _ time.Time, runbook Runbook) []byte {
	e := events[0]
	var b strings.Builder
	state := e.Level.String()
	switch {
	case e.SupersededBy != "":
		state = "now " + e.SupersededBy
	case e.State == alert.Resolved:
		state = "resolved"
	case e.Repeated:
		state += ", still"
	}
	fmt.Fprintf(&b, "*[%s] %s*", state, e.Alert)
	if e.Subject != "" {
		fmt.Fprintf(&b, " · slot `%s`", slackText(e.Subject))
	}
	fmt.Fprintf(&b, "\n%s", slackText(e.Sentence))
	if e.State == alert.Firing {
		if e.Cause.Code != "" && !strings.Contains(e.Sentence, strings.TrimSuffix(e.Cause.Sentence, ".")) {
			fmt.Fprintf(&b, "\n*Cause:* %s", slackText(e.Cause.Sentence))
		}
		if e.Cause.Next != "" {
			fmt.Fprintf(&b, "\n*Next:* %s", slackText(e.Cause.Next))
		}
		b.WriteString(slackCommands(e.Cause.Commands))
		fmt.Fprintf(&b, "\n<%s|What to do>", runbook(e.Alert))
	}
	return marshal(map[string]string{"text": b.String()})
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("webhook: " + err.Error()) // the types above always marshal
	}
	return b
}
