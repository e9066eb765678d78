package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// calmTicks is how many checks in a row must be better before the alert gets milder or ends.
const calmTicks = 6

// Engine follows the findings from check to check. It reports each alert once when it begins and once when it ends, at
// once when it gets worse, and again at intervals while it fires. It is pure; time comes with the findings. Use it from
// one goroutine.
type Engine struct {
	repeat time.Duration
	worse  func(alert string) []string
	active map[alertKey]*activeAlert
}

type alertKey struct{ alert, subject string }

type activeAlert struct {
	level    Level
	sentence string
	cause    Cause
	since    time.Time
	told     time.Time
	better   int // checks in a row that were better than level
}

// NewEngine makes an engine that reports an alert that still fires after each repeat. worse, which may be nil, lists
// the alerts that supersede one about the same subject, the worst first: the event that the alert warned of has come
// about.
func NewEngine(repeat time.Duration, worse func(alert string) []string) *Engine {
	return &Engine{repeat: repeat, worse: worse, active: map[alertKey]*activeAlert{}}
}

// Level is the level at which the alert fires, OK if it does not.
func (a *Engine) Level(alert, subject string) Level {
	if on := a.active[alertKey{alert, subject}]; on != nil {
		return on.level
	}
	return OK
}

// Add takes the findings of one check.
func (a *Engine) Add(found []Finding, now time.Time) []Event {
	var events []Event
	for _, f := range found {
		if e, ok := a.one(f, now); ok {
			events = append(events, e)
		}
	}
	return events
}

func (a *Engine) one(f Finding, now time.Time) (Event, bool) {
	key := alertKey{f.Alert, f.Subject}
	worse := a.supersedes(key)
	on := a.active[key]
	if on == nil {
		if f.Level == OK {
			return Event{}, false
		}
		on = &activeAlert{since: now}
		a.active[key] = on
	}
	before := on.level
	e := Event{
		Alert: f.Alert, Subject: f.Subject, State: Firing, Level: f.Level, Before: before, Sentence: f.Sentence,
		Since: on.since, At: now, Cause: f.Cause,
	}
	if f.Level >= before {
		on.better = 0
		on.sentence, on.cause = f.Sentence, f.Cause
	} else if on.better++; on.better < calmTicks && (worse == "" || f.Level != OK) {
		return Event{}, false
	}
	switch {
	case f.Level == OK:
		e.State, e.Level, e.Sentence, e.Cause = Resolved, before, on.sentence, on.cause
		if worse != "" {
			e.SupersededBy = worse
			e.Sentence = fmt.Sprintf("It is worse now, %s fires: %s", worse,
				a.active[alertKey{worse, f.Subject}].sentence)
		}
		delete(a.active, key)
	case f.Level == before && now.Sub(on.told) < a.repeat:
		return Event{}, false
	default:
		e.Repeated = f.Level == before
		on.level, on.sentence, on.cause, on.told, on.better = f.Level, f.Sentence, f.Cause, now, 0
	}
	return e, true
}

// supersedes is the worse alert about the same subject that fires, empty if none does.
func (a *Engine) supersedes(key alertKey) string {
	if key.subject == "" || a.worse == nil {
		return ""
	}
	for _, alert := range a.worse(key.alert) {
		if a.active[alertKey{alert, key.subject}] != nil {
			return alert
		}
	}
	return ""
}

// End resolves the alerts about subjects that no longer exist; sentence says so of one of them. An alert that found
// still judges stays: that its subject is missing may be what it is about.
func (a *Engine) End(exists func(subject string) bool, found []Finding, sentence func(subject string) string,
	now time.Time,
) []Event {
	var events []Event
	for key, on := range a.active {
		judged := func(f Finding) bool { return f.Alert == key.alert && f.Subject == key.subject }
		if key.subject == "" || exists(key.subject) || slices.ContainsFunc(found, judged) {
			continue
		}
		events = append(events, Event{
			Alert: key.alert, Subject: key.subject, State: Resolved, Level: on.level, Before: on.level,
			Sentence: sentence(key.subject), Since: on.since, At: now, Cause: on.cause,
		})
		delete(a.active, key)
	}
	slices.SortFunc(events, func(x, y Event) int {
		return cmp.Or(strings.Compare(x.Subject, y.Subject), strings.Compare(x.Alert, y.Alert))
	})
	return events
}

// About lists the alerts that fire about a subject, the worst first, and its worst level.
func (a *Engine) About(subject string) ([]Alert, Level) {
	var found []Finding
	for key, on := range a.active {
		if key.subject == subject {
			found = append(found, Finding{Alert: key.alert, Subject: subject, Level: on.level, Sentence: on.sentence})
		}
	}
	slices.SortFunc(found, func(x, y Finding) int { return strings.Compare(x.Alert, y.Alert) })
	return Fires(found)
}

// List is everything that fires, the worst first, then the oldest.
func (a *Engine) List() []FiringAlert {
	all := make([]FiringAlert, 0, len(a.active))
	for key, on := range a.active {
		all = append(all, FiringAlert{
			Alert: Alert{Rule: key.alert, Level: on.level, Sentence: on.sentence}, Subject: key.subject,
			Since: on.since.UTC(), Cause: on.cause,
		})
	}
	slices.SortFunc(all, func(x, y FiringAlert) int {
		return cmp.Or(cmp.Compare(y.Level, x.Level), x.Since.Compare(y.Since), strings.Compare(x.Subject, y.Subject),
			strings.Compare(x.Rule, y.Rule))
	})
	return all
}

// Fires keeps the findings that are not OK, the worst first.
func Fires(found []Finding) (alerts []Alert, worst Level) {
	for _, f := range found {
		if f.Level == OK {
			continue
		}
		a := Alert{Rule: f.Alert, Level: f.Level, Sentence: f.Sentence}
		if f.Level > worst {
			worst = f.Level
			alerts = append([]Alert{a}, alerts...)
			continue
		}
		alerts = append(alerts, a)
	}
	return alerts, worst
}
