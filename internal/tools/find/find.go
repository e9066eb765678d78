package find

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Options of a search.
type Options struct {
	ID, Key string    // one of them
	Since   time.Time // records before it are not searched; zero: as far back as Kafka goes
	Topics  []string  // besides the topics that the rows lead to; without both, all topics
	All     bool      // search on after the first record with the id

	DSN        string
	Admin      setup.Config
	Router     router.Router
	Policies   relay.Policies
	Reader     sink.OpenReader
	Replays    bool                // replay, repair and retry publish to the broker
	Letters    string              // the dead-letter topic
	HeaderID   func([]byte) []byte // reads an id from its header; nil if the header is the id
	Placed     bool                // a column may choose a record's partition, whatever its key
	Converted  bool                // a converter writes the keys, so that they are not the text in the table
	Slot       *slotmonitor.Config // nil: rows are polled
	Gaps       gap.Desk
	Progress   progress.Reporter
	MaxRecords int // kept of a key; the last are
}

// Find looks for the event, or for the events of the key. The report names the places that could not be asked; the
// error is only about a search that did not happen at all.
func Find(ctx context.Context, o Options) (*Report, error) {
	r := &Report{
		ID: o.ID, Key: o.Key, Rows: []Row{}, Records: []Record{}, Letters: []*deadletter.Entry{}, Complete: true,
	}
	k, err := o.Reader()
	if err != nil {
		return nil, err
	}
	r.names, r.replays = k.Names(), o.Replays
	k.Close()
	end, err := o.rows(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.unread = err
		r.NotLooked = append(r.NotLooked, "table: "+err.Error())
	}
	if o.Key != "" && o.Converted && len(r.Rows) == 0 {
		r.Complete = false
		r.NotLooked = append(r.NotLooked, "records: a converter writes their keys, and without a row it is not known "+
			"how it writes this one; the records of an event are found by its id")
	}
	o.slot(ctx, r, end)
	if err = o.search(ctx, r); err == nil && o.mayCome(r) && o.awaitSlotPast(ctx, r, end) {
		err = o.search(ctx, r) // records in transit during the first search have arrived
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.Complete = false
		r.NotLooked = append(r.NotLooked, r.names.Broker+": "+err.Error())
	}
	for _, about := range []struct {
		what string
		ask  func(context.Context, *Report) error
	}{{"newer records of the key", o.newer}, {"records that were removed", o.removed}} {
		if err := about.ask(ctx, r); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			r.Complete = false
			r.NotLooked = append(r.NotLooked, about.what+": "+err.Error())
		}
	}
	if err := o.letters(ctx, r); err != nil && o.ID != "" {
		if ctx.Err() != nil {
			return nil, err
		}
		if len(r.Records) == 0 {
			r.Complete = false
		}
		r.NotLooked = append(r.NotLooked, "dead letters: "+err.Error())
	}
	if r.Gaps, err = o.Gaps.Open(ctx); err != nil {
		r.NotLooked = append(r.NotLooked, "gaps: "+err.Error())
	}
	r.compare()
	r.judge()
	return r, nil
}

// letters looks among the dead letters. A missing topic is not an error: nothing was dead-lettered.
func (o *Options) letters(ctx context.Context, r *Report) error {
	if o.ID == "" {
		return nil
	}
	box, err := letterbox.Open(ctx, o.Reader, o.Letters, o.Progress)
	if errors.Is(err, sink.ErrNoTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	defer box.Close()
	ids := o.ids(r)
	for _, e := range box.Ledger.Entries() {
		if slices.Contains(ids, e.ID) {
			r.Letters = append(r.Letters, e)
		}
	}
	return nil
}

// slot compares the slot with the end of the log at a moment when the rows were there.
func (o *Options) slot(ctx context.Context, r *Report, end lsn.LSN) {
	if o.Slot == nil {
		return
	}
	slots, err := slotmonitor.Look(ctx, *o.Slot)
	if err != nil {
		r.NotLooked = append(r.NotLooked, "slot: "+err.Error())
	}
	if len(slots) == 0 {
		return
	}
	s := &slots[0]
	confirmed, err := lsn.Parse(s.ConfirmedFlushLSN)
	r.Slot = &Slot{
		Name: s.Name, Active: s.Active, Confirmed: s.ConfirmedFlushLSN, UnconfirmedBytes: s.UnconfirmedBytes,
		Passed: err == nil && end > 0 && confirmed >= end, confirmed: confirmed,
	}
}

// mayCome reports whether the relay may be about to publish a row that Kafka does not have.
func (o *Options) mayCome(r *Report) bool {
	return o.ID != "" && len(r.Rows) > 0 && r.Rows[0].Bad == "" && len(r.Records) == 0 && r.Slot != nil &&
		r.Slot.Active && !r.Slot.Passed
}

const (
	settleFor   = 5 * time.Second
	settleEvery = 250 * time.Millisecond
)

// awaitSlotPast waits until the slot has passed the rows, for a few seconds: then an event that Kafka does not have is
// missing.
func (o *Options) awaitSlotPast(ctx context.Context, r *Report, end lsn.LSN) bool {
	defer o.Progress.Wait(progress.For("the slot to pass the row"))()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for until := time.Now().Add(settleFor); time.Now().Before(until) && !r.Slot.Passed; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			o.slot(ctx, r, end)
		}
	}
	return r.Slot.Passed
}

// compare says of each record whether the slot is past it.
func (r *Report) compare() {
	for i := range r.Records {
		if r.Slot != nil && r.Slot.confirmed > 0 {
			r.Records[i].Confirmed = passed(r.Records[i].Position, r.Slot.confirmed)
		}
	}
}
