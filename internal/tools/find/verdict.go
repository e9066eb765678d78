package find

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
)

// Verdict is one word for where an event is.
type Verdict string

// The verdicts.
const (
	Published    Verdict = "published"     // the broker has it
	DeadLettered Verdict = "dead_lettered" // in the dead-letter topic alone
	Bad          Verdict = "bad_row"       // the row cannot become a record
	Waiting      Verdict = "waiting"       // committed; the relay may still publish it
	Superseded   Verdict = "superseded"    // not in its compacted topic, which has a later record of the key
	Uncertain    Verdict = "uncertain"     // not in its topic, from which the broker may have removed it
	Missing      Verdict = "missing"       // committed; the relay is past it, and the broker does not have it
	Unsearched   Verdict = "unsearched"    // a place that could have it could not be searched
	Unknown      Verdict = "unknown"       // neither a row nor a record
)

// judge sets the verdict, its sentence and the next step.
func (r *Report) judge() {
	for _, of := range []func(*Report) bool{
		published, deadLettered, badRow, unsearched, nowhere, waiting, superseded, uncertain,
	} {
		if of(r) {
			return
		}
	}
	r.Verdict = Missing
	r.Sentence = "The row is committed, the relay is past it, and " + r.where() + " does not have it."
	if len(r.Gaps) > 0 {
		r.Sentence += " " + gap.Summary(r.Gaps)
		r.do(gap.Remedy(r.Gaps))
		return
	}
	if !r.replays {
		r.do(fault.Do(fmt.Sprintf("The row was written while its table was not in the publication, or %s has lost the "+
			"record. %s", r.names.Broker, insertAgain)))
		return
	}
	if r.Compacted {
		r.do(fault.Do("The row was written while its table was not in the publication, or its key was deleted. See "+
			"what is missing, then publish it; repair leaves out what newer events have replaced.",
			"cdc-outbox repair --dry-run", "cdc-outbox repair"))
		return
	}
	r.do(fault.Do("The row was written while its table was not in the publication, or Kafka has lost the record. See "+
		"what is missing, then publish it.",
		"cdc-outbox repair --dry-run", "cdc-outbox replay --id "+r.quoted()))
}

// insertAgain publishes an event where no command does.
const insertAgain = "To publish the event, insert its row once more, with a new id."

func (r *Report) do(next fault.Remedy) { r.Next, r.Commands = next.Next, next.Commands }

// quoted is the id for a shell.
func (r *Report) quoted() string {
	id := r.ID
	if id == "" && len(r.Rows) > 0 {
		id = r.Rows[0].EventID
	}
	if strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == "" {
		return id
	}
	return "'" + strings.ReplaceAll(fault.Printable(id), "'", `'\''`) + "'"
}

func (r *Report) where() string {
	if len(r.Kafka.Topics) == 1 {
		return "topic " + r.Kafka.Topics[0]
	}
	return r.names.Broker
}

func published(r *Report) bool {
	if len(r.Records) == 0 {
		return false
	}
	r.Verdict = Published
	first := r.Records[0]
	at := r.names.Place(first.Topic, first.Partition, first.Offset)
	if r.Key != "" {
		last := r.Records[len(r.Records)-1]
		r.Sentence = fmt.Sprintf("%s has %s with the key, the last in %s.", r.names.Broker,
			human.Counted(int64(len(r.Records))+r.More, "record", "records"),
			r.names.Place(last.Topic, last.Partition, last.Offset))
		absent := 0
		for i := range r.Rows {
			if !r.Rows[i].InKafka {
				absent++
			}
		}
		if absent > 0 {
			r.Sentence += fmt.Sprintf(" %d of the rows with the key were not found there.", absent)
			r.do(fault.Do("Ask for one of the events.", "cdc-outbox find "+r.firstAbsent()))
		}
		return true
	}
	replayed, plain := 0, 0
	for i := range r.Records {
		if r.Records[i].Replayed != "" {
			replayed++
		} else {
			plain++
		}
	}
	r.Sentence = "Published: " + at + "."
	switch {
	case len(r.Rows) > 1:
		r.Sentence = fmt.Sprintf("%d rows have this id, and %s has %s with it, the first in %s. Consumers take "+
			"them for one event.", len(r.Rows), r.names.Broker,
			human.Counted(int64(len(r.Records)), "record", "records"), at)
		r.do(fault.Do("Keep ids unique: check has the index.", "cdc-outbox check"))
	case plain > 1:
		r.Sentence = fmt.Sprintf("Published %d times, the first time at %s. A repeat follows a crash or a takeover; "+
			"consumers recognise it by the id.", plain, at)
	case plain == 1 && replayed > 0:
		r.Sentence += fmt.Sprintf(" It was replayed %s.", times(replayed))
	case plain == 0:
		r.Sentence = "Published by a replay or a repair: " + at + "."
	}
	return true
}

func (r *Report) firstAbsent() string {
	for i := range r.Rows {
		if !r.Rows[i].InKafka {
			of := Report{ID: r.Rows[i].EventID}
			return of.quoted()
		}
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func deadLettered(r *Report) bool {
	if len(r.Letters) == 0 {
		return false
	}
	l := r.Letters[len(r.Letters)-1]
	r.Verdict = DeadLettered
	r.Sentence = fmt.Sprintf("Dead-lettered at %s: %s (%s).", human.Time(l.Written), l.Detail, l.Reason)
	show := "cdc-outbox dead-letter show " + r.quoted()
	if l.State == deadletter.Retried {
		r.Sentence += fmt.Sprintf(" It was retried at %s, and %s does not have it any more.",
			human.Time(l.RetriedAt), r.where())
		r.do(fault.Do("Look at the letter.", show))
		return true
	}
	if !r.replays {
		r.do(fault.Do("Look at the letter, and fix the cause. "+insertAgain, show))
		return true
	}
	r.do(fault.Do("Look at the letter, fix the cause, and publish it.", show,
		"cdc-outbox dead-letter retry "+r.quoted()))
	return true
}

func badRow(r *Report) bool {
	if len(r.Rows) == 0 || r.Rows[0].Bad == "" {
		return false
	}
	r.Verdict = Bad
	r.Sentence = fmt.Sprintf("The row cannot become a record: %s. The policy for it is %s.", r.Rows[0].Bad,
		r.Rows[0].Policy)
	if r.Rows[0].Policy == "halt" {
		r.do(fault.Do("See whether the relay has halted at it.", "cdc-outbox status --why"))
	}
	return true
}

// unsearched also holds back the word that an event never was, if a table could not be read.
func unsearched(r *Report) bool {
	if r.Complete && (r.unread == nil || len(r.Rows) > 0) {
		return false
	}
	r.Verdict = Unsearched
	row, record := "No table has the row.", "Whether "+r.names.Broker+" has the event is not known."
	switch {
	case len(r.Rows) > 0:
		row, record = "The row is committed.", "Whether "+r.names.Broker+" has it is not known."
	case r.unread != nil:
		row = "Whether a table has the row is not known."
	}
	if r.Complete {
		record = r.names.Broker + " does not have the event."
	}
	r.Sentence = row + " " + record
	next := fault.Do("Make the listed places readable, and ask again.")
	if r.unread != nil {
		_, remedy := fault.Split(r.unread)
		next.Commands = remedy.Commands
	}
	r.do(next)
	return true
}

func nowhere(r *Report) bool {
	if len(r.Rows) > 0 {
		return false
	}
	r.Verdict = Unknown
	what := "this id"
	if r.Key != "" {
		what = "this key"
	}
	r.Sentence = fmt.Sprintf("No row and no record has %s. It was never committed, or its row was pruned and its "+
		"record is past the topic's retention.", what)
	if len(r.Gaps) > 0 {
		r.Sentence += " " + gap.Summary(r.Gaps)
	}
	r.do(fault.Do("Compare the id with the writer's log: a transaction that was rolled back leaves nothing."))
	return true
}

func waiting(r *Report) bool {
	switch {
	case r.Slot != nil && r.Slot.Passed:
		return false
	case r.Slot == nil:
		r.Sentence = "The row is committed and not in " + r.names.Broker + " yet."
	case !r.Slot.Active:
		r.Sentence = fmt.Sprintf("The row is committed and not in %s: no process reads slot %q.", r.names.Broker,
			r.Slot.Name)
	default:
		r.Sentence = fmt.Sprintf("The row is committed and not in %s yet: the slot has %s left to confirm.",
			r.names.Broker, human.Bytes(float64(r.Slot.UnconfirmedBytes)))
	}
	r.Verdict = Waiting
	next := fault.Do("See what the relay waits for.", "cdc-outbox status --why")
	if gap.Hiding(r.Gaps) { // then the row may be hidden from the relay
		r.Sentence += " " + gap.Summary(r.Gaps)
		next = gap.Remedy(r.Gaps)
	}
	r.do(next)
	return true
}
