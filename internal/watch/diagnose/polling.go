package diagnose

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// The alerts that only a relay that polls has.
const (
	BacklogOld      = "backlog"
	PostgresSilent  = "postgres_silent"
	BacklogNotKnown = alert.Blind
)

// PollingRules lists the alerts about a relay that polls, whether they fire or not.
func PollingRules() []string {
	return []string{BacklogOld, RowHalted, DeadLetters, PostgresSilent, PartitionsAdded, ConnectorStopped}
}

// BacklogLimits are the ages of the oldest unpublished row at which an alert fires.
type BacklogLimits struct{ Warn, Critical time.Duration }

// Backlog judges the rows that are not published yet. A check that failed is not a finding: the alert stays as it was.
func Backlog(b relay.Backlog, limits BacklogLimits, now alert.Level) alert.Finding {
	f := alert.Finding{Alert: BacklogOld}
	if b.Oldest == nil {
		return f
	}
	age := time.Duration(*b.Oldest * float64(time.Second))
	reached := func(limit time.Duration, level alert.Level) bool {
		if now >= level {
			limit -= limit / 5
		}
		return age >= limit
	}
	switch {
	case reached(limits.Critical, alert.Critical):
		f.Level = alert.Critical
	case reached(limits.Warn, alert.Warn):
		f.Level = alert.Warn
	default:
		return f
	}
	count := fmt.Sprint(b.Rows)
	if b.Rows >= relay.MaxCounted {
		count = "at least " + count
	}
	f.Sentence = fmt.Sprintf("The oldest row that is not published was written %s ago; %s rows wait.",
		human.Duration(age), count)
	return f
}

// Polling judges a relay that polls from check to check. Use it from one goroutine.
type Polling struct{ relay Relay }

// Judge applies every rule.
func (p *Polling) Judge(st relay.Account, limits BacklogLimits, level func(rule, subject string) alert.Level,
	now time.Time,
) []alert.Finding {
	found := []alert.Finding{
		p.relay.deadLetters(st, now), lanesHalted(st), postgresSilent(st, now), partitionsAdded(st, now),
	}
	if st.Backlog != nil {
		found = append(found, Backlog(*st.Backlog, limits, level(BacklogOld, "")))
	}
	return found
}

func lanesHalted(st relay.Account) alert.Finding {
	f := alert.Finding{Alert: RowHalted}
	if len(st.Halted) > 0 {
		h := st.Halted[0]
		f.Level = alert.Critical
		f.Sentence = sentence(fmt.Sprintf("%d lanes, each with a 64th of the keys, stand still, one in front of "+
			"event %s: %s", len(st.Halted), h.EventID, h.Message))
	}
	return f
}

func postgresSilent(st relay.Account, now time.Time) alert.Finding {
	f := alert.Finding{Alert: PostgresSilent}
	age := now.Sub(st.State.Since)
	if (st.State.Name == relay.Starting || st.State.Name == relay.Reconnecting) && age >= silent {
		f.Level = alert.Critical
		f.Sentence = fmt.Sprintf("Postgres has not been worked with for %s.", human.Duration(age))
		if st.State.Reason != "" {
			f.Sentence = fmt.Sprintf("Postgres has not been worked with for %s: %s", human.Duration(age),
				sentence(st.State.Reason))
		}
	}
	return f
}
