package badrow

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Row holds the facts about a bad row, without anything of its payload.
type Row struct {
	EventID  string
	Reason   router.Reason
	Topic    string // the topic it was meant for, if it had a topic
	Cause    string // the error in words
	Position []byte // as in the record's header, or the sequence number
	LSN      string // of the commit, if rows come from the log
	Table    string // if rows are polled
	Decided  string // who decided about this row, if the policy did not
}

// OfRouter is the row that the router could not turn into a record.
func OfRouter(err *router.RowError) Row {
	return Row{EventID: err.EventID, Reason: err.Reason, Cause: err.Error()}
}

// OfRecord is the row of a record that its topic cannot take.
func OfRecord(rec *router.Record, err *sink.RefusedError) Row {
	return Row{
		EventID: deadletter.EventID(rec.Headers), Reason: router.Reason(err.Reason), Topic: rec.Topic,
		Cause: err.Error(),
	}
}

// Detail is the dead letter's text of the error.
func Detail(err *router.RowError) string {
	if err.Column != "" {
		return "column " + err.Column + ": " + err.Detail
	}
	return err.Detail
}

// Remedy is the remedy for a record that its topic cannot take; goesOn names the work that continues then.
func Remedy(err *sink.RefusedError, goesOn string) fault.Remedy {
	if err.Reason == sink.IllegalTopic {
		return fault.Do(fmt.Sprintf("Correct what makes the topic's name. To pass over the row: restart with "+
			"--router-bad-rows-unroutable dead_letter, or skip. If the other topic is not needed, delete it; %s then.",
			goesOn))
	}
	if err.Reason == sink.NoPartition {
		return fault.Do(fmt.Sprintf("Correct what writes the partition column. To pass over the row: restart with "+
			"--router-bad-rows-unroutable dead_letter, or skip. Topic %q takes the row if it gets %d partitions, and "+
			"%s then; but that moves keys to other partitions, and the order of their records is lost.", err.Topic,
			err.Partition+1, goesOn))
	}
	if err.Reason == sink.InvalidRecord {
		return err.Remedy.Then(fault.Do(goesOn + " within a minute of a changed setting. Or restart with " +
			"--router-bad-rows-unconvertible dead_letter, or skip."))
	}
	if err.Setting != "" {
		return err.Remedy.Then(fault.Do(goesOn + " within a minute of a changed setting. Or restart with " +
			"--router-bad-rows-too-large dead_letter, or skip."))
	}
	return fault.Do(fmt.Sprintf("Or raise max.message.bytes of topic %q to %d or more, and what its consumers fetch; "+
		"%s then. Or restart with --router-bad-rows-too-large dead_letter, or skip.", err.Topic, err.Bytes, goesOn),
		err.Remedy.Commands...)
}

// Fields name the row in the log.
func (r *Row) Fields() []zap.Field {
	fields := []zap.Field{zap.String(logkey.Event, r.EventID), zap.ByteString(logkey.Position, r.Position)}
	if r.LSN != "" {
		fields = append(fields, zap.String(logkey.LSN, r.LSN))
	}
	if r.Table != "" {
		fields = append(fields, zap.String(logkey.Table, r.Table))
	}
	return append(fields, zap.String(logkey.Reason, string(r.Reason)), zap.String(logkey.Cause, r.Cause))
}

// Handler applies the policies. It is safe for concurrent use.
type Handler struct {
	Policies relay.Policies
	Letters  deadletter.Builder
	Metrics  *telemetry.Metrics
	Logger   *zap.Logger

	skipped, deadLettered atomic.Uint64
	latest                relay.BadRows
}

// Register makes the counters of possible events, so that their first increment is seen. A dead letter is possible
// whatever the policy: an operator decides so about a single row.
func (h *Handler) Register() {
	for _, reason := range router.Reasons() {
		h.Metrics.MayFail(string(reason))
		h.Metrics.MayDeadLetter(string(reason))
	}
}

// Counts are the numbers of bad rows since the process started.
func (h *Handler) Counts() (skipped, deadLettered uint64) {
	return h.skipped.Load(), h.deadLettered.Load()
}

// Latest lists the latest bad rows, the latest first.
func (h *Handler) Latest() []relay.BadRow { return h.latest.Latest() }

// Failed counts a bad row, whatever becomes of it.
func (h *Handler) Failed(row Row) { h.Metrics.Failed(row.Topic, string(row.Reason)) }

// Skip is for a row that is skipped.
func (h *Handler) Skip(row Row) {
	if row.Decided == "" {
		h.Logger.Error("skipped an outbox row that cannot be published, as router.on_bad_row says", row.Fields()...)
	} else {
		h.Logger.Error("skipped an outbox row that cannot be published, as an operator decided", row.Fields()...)
	}
	h.skipped.Add(1)
	h.note(row, relay.Skip, "")
}

// SkipUnnamed is for a row that has no place in the stream and so cannot be shown.
func (h *Handler) SkipUnnamed() { h.skipped.Add(1) }

// Sent is for a row whose dead letter the producer has taken.
func (h *Handler) Sent(row Row, letter *router.Record) {
	h.deadLettered.Add(1)
	h.Metrics.DeadLettered(string(row.Reason))
	h.note(row, relay.DeadLetter, deadletter.EventType(letter.Headers))
	fields := append(row.Fields(), zap.String(logkey.Topic, letter.Topic))
	if row.Decided == "" {
		h.Logger.Error("sent an outbox row that cannot be published to the dead-letter topic, as router.on_bad_row "+
			"says", fields...)
	} else {
		h.Logger.Error("sent an outbox row that cannot be published to the dead-letter topic, as an operator decided",
			fields...)
	}
}

func (h *Handler) note(row Row, action relay.Policy, eventType string) {
	h.latest.Add(relay.BadRow{
		EventID: row.EventID, Type: eventType, Action: action, Reason: string(row.Reason), Topic: row.Topic,
		LSN: row.LSN, At: time.Now().UTC(),
	})
}
