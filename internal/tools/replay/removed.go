package replay

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// judge counts a missing row whose record the broker may have had and removed.
func (r *repair) judge(t *Repaired, table int, rec *router.Record) {
	topic := r.removed[rec.Topic]
	if topic == nil {
		return // there is no such topic
	}
	var at time.Time
	if r.tables[table].Timed() && (t.Untimed == 0 || r.report.ranged) { // otherwise the record has this run's time
		at = time.UnixMilli(rec.Timestamp)
	}
	doubt := topic.Doubt(rec, at)
	if doubt == nil {
		return
	}
	t.Unproven++
	if r.doubt == nil || r.doubt.Before.Before(doubt.Before) {
		r.doubt = doubt
	}
}

// unproven is the error about missing rows that may have been published; nil if there are none.
func (r *repair) unproven() error {
	var rows int64
	for _, t := range r.report.Tables {
		rows += t.Unproven
	}
	if rows == 0 {
		return nil
	}
	object := fmt.Sprintf("topic %q partition %d", r.doubt.Span.Topic, r.doubt.Span.Partition)
	if r.o.Kafka == nil {
		object = "subject " + r.doubt.Span.Topic
	}
	f := &fault.Error{Kind: fault.Operator, Object: object, Err: fmt.Errorf(
		"its older records were removed, among them maybe records of rows from before %s; so %s may have been "+
			"published",
		human.Time(r.doubt.Before), human.Counted(rows, "missing row", "missing rows"),
	)}
	newer := "cdc-outbox repair --since " + human.Time(r.doubt.Before.Add(time.Minute))
	switch past := r.doubt.Before.Before(r.publisher.began); {
	case r.o.Kafka == nil:
		f.Next = "Compare what is newer. Insert none of these rows again before consumers say that they lack it."
		f.Commands = []string{newer}
	case past:
		f.Next = "Repair what is newer. To publish all that is missing, whether it was there or not, run " +
			"`cdc-outbox repair --yes-publish-twice` instead."
		f.Commands = []string{newer}
	default:
		f.Next = "Ask consumers whether they had these events. Where records are removed by their age alone, and the " +
			"topic keeps them for longer than the rows are old, they had not. Then publish all that is missing, or " +
			"dismiss the gap (cdc-outbox repair --dismiss)."
		f.Commands = []string{"cdc-outbox repair --yes-publish-twice"}
	}
	return f
}
