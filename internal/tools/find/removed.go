package find

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/absence"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// removed looks, for an event that is not in its topic, whether the broker may have removed its record.
func (o *Options) removed(ctx context.Context, r *Report) error {
	if o.ID == "" || len(r.Rows) == 0 || r.Rows[0].Bad != "" || len(r.Records) > 0 {
		return nil
	}
	row := &r.Rows[0]
	k, err := o.Reader()
	if err != nil {
		return err
	}
	defer k.Close()
	topic, err := absence.Look(ctx, k, row.Topic)
	if errors.Is(err, sink.ErrNoTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	var at time.Time
	if !row.untimed {
		at = *row.Timestamp
	}
	r.removed = topic.Doubt(&router.Record{Topic: row.Topic, Key: row.key, Partition: row.partition}, at)
	return nil
}

func uncertain(r *Report) bool {
	if r.removed == nil {
		return false
	}
	r.Verdict = Uncertain
	r.Sentence = fmt.Sprintf("The row is committed, the relay is past it, and %s does not have it. %s may have "+
		"removed its record: older records were removed there, among them maybe records of rows from before %s.",
		r.where(), r.names.Broker, human.Time(r.removed.Before))
	if len(r.Gaps) > 0 {
		r.Sentence += " " + gap.Summary(r.Gaps)
	}
	if !r.replays {
		r.do(fault.Do("Ask consumers whether they had the event. " + insertAgain))
		return true
	}
	r.do(fault.Do("Ask consumers whether they had the event. If they had not, publish it.",
		"cdc-outbox replay --id "+r.quoted()))
	return true
}
