package diagnose

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// The alerts about the relay. They are values of a label and of a webhook's field, so names stay.
const (
	EventsUnconfirmed  = "events_unconfirmed"
	RowHalted          = "row_halted"
	DeadLetters        = "dead_letters"
	StreamSilent       = "stream_silent"
	TableUnpublished   = "table_unpublished"
	SynchronousRelay   = "synchronous_relay"
	PartitionsAdded    = "partitions_added"
	ConnectorStopped   = "connector_stopped"
	EventsMayBeMissing = "events_may_be_missing"
	NextFailover       = "next_failover"
)

// Rules lists the alerts about the relay, whether they fire or not.
func Rules() []string {
	return []string{
		EventsUnconfirmed, RowHalted, DeadLetters, StreamSilent, TableUnpublished, SynchronousRelay, PartitionsAdded,
		ConnectorStopped, EventsMayBeMissing, NextFailover,
	}
}

const (
	warnUnconfirmed     = time.Minute
	criticalUnconfirmed = 10 * time.Minute
	silent              = time.Minute
	// recently is for how long a dead letter is news.
	recently = 10 * time.Minute
	// growing is for how long added partitions are news. A group may have a lag for hours.
	growing = time.Hour
)

// Relay judges the connector from check to check. Use it from one goroutine.
type Relay struct {
	lost   uint64 // dead letters and skipped rows at the last check
	lostAt time.Time
}

// Judge applies every rule. misfit is the error that an operator has to fix in the publication, nil when all tables are
// in it.
func (r *Relay) Judge(st relay.Account, misfit error, now time.Time) []alert.Finding {
	return []alert.Finding{
		unconfirmed(st), rowHalted(st), r.deadLetters(st, now), streamSilent(st, now), tableUnpublished(st, misfit),
		synchronousRelay(st), partitionsAdded(st, now),
	}
}

func unconfirmed(st relay.Account) alert.Finding {
	f := alert.Finding{Alert: EventsUnconfirmed}
	age := time.Duration(st.OldestUnconfirmedSeconds * float64(time.Second))
	switch {
	case st.State.Name == relay.Paused: // deliberate; the alerts about the slot still fire
		return f
	case age >= criticalUnconfirmed:
		f.Level = alert.Critical
	case age >= warnUnconfirmed:
		f.Level = alert.Warn
	default:
		return f
	}
	f.Sentence = fmt.Sprintf("A transaction that was committed %s ago is not confirmed.", human.Duration(age))
	return f
}

// Gaps is the finding about the open gaps of the stream, the first of which was found at since. It lasts until they are
// settled, whatever the stream does meanwhile. Without a summary, there is none.
func Gaps(summary string, since time.Time, next fault.Remedy) alert.Finding {
	return lasting(EventsMayBeMissing, alert.Critical, summary, since, "", next)
}

// Failover is the finding about a failover to a server that would not go well, as it was first seen at since. Without a
// summary, there is none.
func Failover(summary string, since time.Time, server string, next fault.Remedy) alert.Finding {
	return lasting(NextFailover, alert.Warn, summary, since, server, next)
}

// lasting is a finding that is its own cause.
func lasting(name string, level alert.Level, summary string, since time.Time, object string,
	next fault.Remedy,
) alert.Finding {
	f := alert.Finding{Alert: name}
	if summary == "" {
		return f
	}
	f.Level, f.Sentence = level, summary
	f.Cause = alert.Cause{Code: name, Sentence: summary, Since: &since, Object: object}.With(next)
	return f
}

func rowHalted(st relay.Account) alert.Finding {
	f := alert.Finding{Alert: RowHalted}
	if cause, is := halted(st, nil, time.Time{}); is {
		h := st.Halted[0]
		f.Level, f.Cause = alert.Critical, cause
		f.Sentence = sentence(fmt.Sprintf("The relay is halted at event %s, LSN %s: %s", h.EventID, h.LSN,
			h.Message))
	}
	return f
}

// deadLetters begins at zero, as the counters do: an earlier process has reported its own dead letters.
func (r *Relay) deadLetters(st relay.Account, now time.Time) alert.Finding {
	f := alert.Finding{Alert: DeadLetters}
	lost := st.Counts.DeadLettered + st.Counts.Skipped
	if lost > r.lost {
		r.lostAt = now
	}
	r.lost = lost
	if !r.lostAt.IsZero() && now.Sub(r.lostAt) < recently {
		f.Level = alert.Warn
		f.Sentence = fmt.Sprintf("Rows that cannot be published were dead-lettered or skipped: %d dead letters and %d "+
			"skipped since the process started, the last within %s.",
			st.Counts.DeadLettered, st.Counts.Skipped, human.Duration(recently))
		since := r.lostAt
		f.Cause = alert.Cause{
			Code: DeadLetters, Sentence: f.Sentence, Since: &since,
			Next: "Correct the rows, and publish them again.", Commands: []string{"cdc-outbox dead-letter list"},
		}
	}
	return f
}

// streamSilent leaves out an instance that waits for its turn, and one whose full window, or rows that wait for
// standbys or for a schema, keep it from listening.
func streamSilent(st relay.Account, now time.Time) alert.Finding {
	f := alert.Finding{Alert: StreamSilent}
	age := now.Sub(st.State.Since)
	switch st.State.Name {
	case relay.Starting, relay.Reconnecting:
		if age >= silent {
			f.Level = alert.Critical
			f.Sentence = fmt.Sprintf("There has been no stream from Postgres for %s.", human.Duration(age))
			if st.State.Reason != "" {
				f.Sentence = fmt.Sprintf("There has been no stream from Postgres for %s: %s", human.Duration(age),
					sentence(st.State.Reason))
			}
		}
	case relay.Streaming:
		_, held := waitOf(st, PhysicalStandbys, RegistryUnreachable, RegistryRefuses)
		if ago := st.HeardSecondsAgo; ago != nil && *ago >= silent.Seconds() && st.Window.Records == 0 && !held {
			f.Level = alert.Critical
			f.Sentence = fmt.Sprintf("Nothing was heard from Postgres for %s.",
				human.Duration(time.Duration(*ago*float64(time.Second))))
		}
	}
	return f
}

// AboutSlot reports whether the error of a check of the stream is about the slot, and not about the publication.
func AboutSlot(misfit error) bool {
	var known *fault.Error
	return errors.As(misfit, &known) && strings.HasPrefix(known.Object, "slot ")
}

// tableUnpublished leaves out errors of the slot, which has alerts of its own.
func tableUnpublished(st relay.Account, misfit error) alert.Finding {
	f := alert.Finding{Alert: TableUnpublished}
	if misfit == nil || AboutSlot(misfit) {
		return f
	}
	why, _ := fault.Split(misfit)
	f.Level = alert.Critical
	f.Sentence = sentence("Rows of an outbox table are not sent: " + why)
	f.Cause, _ = waitOf(st, TableUnpublished)
	return f
}

// synchronousRelay is the one fault that harms the rest of the server while the relay itself works.
func synchronousRelay(st relay.Account) alert.Finding {
	f := alert.Finding{Alert: SynchronousRelay}
	for _, w := range st.Waits {
		if w.Kind == Synchronous {
			f.Level = alert.Critical
			f.Sentence = sentence("Commits on the whole server wait for the relay. synchronous_standby_names: " +
				w.Reason)
			f.Cause, _ = waitOf(st, Synchronous)
		}
	}
	return f
}

// partitionsAdded is about the groups that read a topic, of which the relay knows nothing.
func partitionsAdded(st relay.Account, now time.Time) alert.Finding {
	f := alert.Finding{Alert: PartitionsAdded}
	var news []string
	for _, g := range st.Grown {
		if now.Sub(g.At) < growing {
			news = append(news, fmt.Sprintf("topic %q has %d partitions and had %d", g.Topic, g.Now, g.Before))
		}
	}
	if len(news) == 0 {
		return f
	}
	g := st.Grown[0]
	f.Level = alert.Warn
	f.Sentence = sentence(fmt.Sprintf("Keys go to other partitions since %s: %s", human.Time(g.At),
		strings.Join(news[:min(len(news), 5)], ", ")))
	if more := len(news) - 5; more > 0 {
		f.Sentence += fmt.Sprintf(" And %d more.", more)
	}
	f.Cause = alert.Cause{
		Code: PartitionsAdded, Sentence: f.Sentence, Since: &g.At, Object: fmt.Sprintf("topic %q", g.Topic),
		Next: g.Next, Commands: g.Commands,
	}
	return f
}
