package slotmonitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// calmTicks is for how many looks in a row it must be better before that counts.
const calmTicks = 6

// Finding is what a rule says at one look. One that is OK is a finding, too: without it an alert stays as it was, because
// nobody looked.
type Finding struct {
	Alert    string
	Slot     string // empty where it is not about a slot
	Level    Level
	Sentence string
}

// Alert is a rule that fires.
type Alert struct {
	Rule     string `json:"alert"`
	Level    Level  `json:"level"`
	Sentence string `json:"sentence"`
}

// FiringAlert is an alert that fires, with what it is about and since when.
type FiringAlert struct {
	Alert
	Slot  string    `json:"slot,omitempty"` // empty where it is not about a slot
	Since time.Time `json:"since"`
}

// State is what an Event tells about an alert.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// Event is something worth telling: an alert begins, gets worse or better, still fires, or is over.
type Event struct {
	Alert    string
	Slot     string // empty where it is not about a slot
	State    State
	Level    Level // of a resolved one: its last
	Before   Level // what was told last; OK at the beginning
	Sentence string
	Since    time.Time // when it began
	At       time.Time
	Repeated bool // nothing has changed since it was told last
	Lasting  bool // whoever tells it cannot tell it again, nor that it is over

	SupersededBy string // of a resolved one: the worse alert about the same thing that fires in its place

	Figures *Slot // nil where it is not about a slot, or nothing is known of it
	Cause   Cause
}

type alertKey struct{ alert, slot string }

// alerts follows the findings from look to look: it tells each alert once when it begins and once when it is over, at
// once when it gets worse, and again every so often while it lasts. It is pure; time comes with the findings.
type alerts struct {
	repeat time.Duration
	active map[alertKey]*activeAlert
}

type activeAlert struct {
	level    Level
	sentence string
	since    time.Time
	told     time.Time
	better   int // looks in a row that were better than level
}

func newAlerts(repeat time.Duration) *alerts {
	return &alerts{repeat: repeat, active: map[alertKey]*activeAlert{}}
}

// level is the one at which the alert fires.
func (a *alerts) level(alert, slot string) Level {
	if on := a.active[alertKey{alert, slot}]; on != nil {
		return on.level
	}
	return OK
}

// add takes the findings of one look.
func (a *alerts) add(found []Finding, now time.Time) []Event {
	var events []Event
	for _, f := range found {
		if e, ok := a.one(f, now); ok {
			events = append(events, e)
		}
	}
	return events
}

func (a *alerts) one(f Finding, now time.Time) (Event, bool) {
	key := alertKey{f.Alert, f.Slot}
	on := a.active[key]
	if on == nil {
		if f.Level == OK {
			return Event{}, false
		}
		on = &activeAlert{since: now}
		a.active[key] = on
	}
	before := on.level
	e := Event{Alert: f.Alert, Slot: f.Slot, State: Firing, Level: f.Level, Before: before, Sentence: f.Sentence, Since: on.since, At: now}
	if f.Level >= before {
		on.better = 0
		on.sentence = f.Sentence
	} else if on.better++; on.better < calmTicks {
		return Event{}, false
	}
	switch {
	case f.Level == OK:
		e.State, e.Level, e.Sentence = Resolved, before, on.sentence
		if worse := a.worse(key); worse != "" {
			e.SupersededBy, e.Sentence = worse, fmt.Sprintf("It is worse now, %s fires: %s", worse, a.active[alertKey{worse, f.Slot}].sentence)
		}
		delete(a.active, key)
	case f.Level == before && now.Sub(on.told) < a.repeat:
		return Event{}, false
	default:
		e.Repeated = f.Level == before
		on.level, on.sentence, on.told, on.better = f.Level, f.Sentence, now, 0
	}
	return e, true
}

// worse is the alert that fires because what another one warned of has come about: nothing else is wrong with a lost
// slot, and one beyond the limit is beyond max_wal_size as well. Empty where none does.
func (a *alerts) worse(than alertKey) string {
	if than.slot == "" {
		return ""
	}
	for _, alert := range []string{lost, unreserved} {
		if alert == than.alert || alert == unreserved && than.alert != extended {
			continue
		}
		if a.active[alertKey{alert, than.slot}] != nil {
			return alert
		}
	}
	return ""
}

// gone ends what was about slots that do not exist any more.
func (a *alerts) gone(present func(slot string) bool, now time.Time) []Event {
	var events []Event
	for key, on := range a.active {
		if key.slot == "" || present(key.slot) {
			continue
		}
		events = append(events, Event{Alert: key.alert, Slot: key.slot, State: Resolved, Level: on.level, Before: on.level,
			Sentence: fmt.Sprintf("The slot %q does not exist any more.", key.slot), Since: on.since, At: now})
		delete(a.active, key)
	}
	slices.SortFunc(events, func(x, y Event) int {
		return cmp.Or(strings.Compare(x.Slot, y.Slot), strings.Compare(x.Alert, y.Alert))
	})
	return events
}

// of lists what fires about a slot, the worst first.
func (a *alerts) of(slot string) ([]Alert, Level) {
	var found []Finding
	for key, on := range a.active {
		if key.slot == slot {
			found = append(found, Finding{Alert: key.alert, Slot: slot, Level: on.level, Sentence: on.sentence})
		}
	}
	slices.SortFunc(found, func(x, y Finding) int { return strings.Compare(x.Alert, y.Alert) })
	return firing(found)
}

// list is everything that fires, the worst first, then the oldest.
func (a *alerts) list() []FiringAlert {
	all := make([]FiringAlert, 0, len(a.active))
	for key, on := range a.active {
		all = append(all, FiringAlert{Alert: Alert{Rule: key.alert, Level: on.level, Sentence: on.sentence}, Slot: key.slot, Since: on.since.UTC()})
	}
	slices.SortFunc(all, func(x, y FiringAlert) int {
		return cmp.Or(cmp.Compare(y.Level, x.Level), x.Since.Compare(y.Since), strings.Compare(x.Slot, y.Slot), strings.Compare(x.Rule, y.Rule))
	})
	return all
}

// names are those of the alerts, each once.
func names(all []FiringAlert) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// quoted doubles the quotes of a text within quotes in SQL.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }
