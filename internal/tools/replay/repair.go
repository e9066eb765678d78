package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/absence"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/publish"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// caughtUpLimit is how long a repair waits for the connector, so that records in flight do not count as missing.
const caughtUpLimit = 2 * time.Minute

// pausedLimit is the same for a connector that is paused.
const pausedLimit = 3 * time.Second

// startLimit is how long a repair waits for a connector to read the slot. A remedy that ends in a repair is pasted at
// once, and a connector that stays for an operator looks again within seconds.
const startLimit = 20 * time.Second

// RepairOptions are the options of a repair.
type RepairOptions struct {
	Pace
	Run    string    // its id; it sorts by time
	Since  time.Time // zero for all rows
	Topics []string  // searched for records besides the topics that rows lead to
	Twice  bool      // publish events that the topics do not hold, although they may have held them

	Letters  string                                  // the dead-letter topic; empty: there is none
	HeaderID func([]byte) []byte                     // reads an id from its header; nil: the header is the id
	Skipped  func(context.Context) ([]string, error) // ids of the events that operators have skipped
	Paused   func(context.Context) (string, error)   // the pause in effect, for people; empty: none

	DSN    string
	Admin  setup.Config // at least one table
	Reader sink.OpenReader
	Kafka  *kafka.Config // nil: nothing can be published
	Router router.Router

	Progress progress.Reporter
}

// RepairReport is the result of a repair.
type RepairReport struct {
	Found     bool   // the missing rows are known; otherwise the rest says nothing yet
	Broker    string // that was read
	Publishes bool   // a repair can publish there
	Tables    []*Repaired
	Published int64
	Examples  []string // rows that could not be published, and why

	ranged bool // only rows of a time range were looked at
}

// Repaired is the result of a repair for one table.
type Repaired struct {
	Table    string `json:"table"`
	Rows     int64  `json:"rows"`
	Unrouted int64  `json:"not_routed"` // rows that make no record
	Missing  int64  `json:"missing"`
	Unproven int64  `json:"not_certain"`   // of them; the broker may have had their records, and removed them
	Lettered int64  `json:"dead_lettered"` // rows that the broker does not have because they are dead letters
	Skipped  int64  `json:"skipped"`       // rows that the broker does not have because operators skipped them
	// Superseded are rows that a compacted topic does not have, and that a newer event of their key replaces there.
	Superseded int64 `json:"superseded"`
	// SameID are rows whose id another row before them has. A record with the id accounts for all of them.
	SameID int64 `json:"same_id"`
	// Untimed are rows without a time: with a time range they were not looked at.
	Untimed   int64    `json:"without_time"`
	Published int64    `json:"published_again"`
	Examples  []string `json:"examples"` // ids
}

// Missing returns the number of rows that the broker does not have.
func (r *RepairReport) Missing() (n int64) {
	for _, t := range r.Tables {
		n += t.Missing
	}
	return n
}

// PassedOver returns the number of rows that were not looked at, since no time range has them.
func (r *RepairReport) PassedOver() (n int64) {
	if r.ranged {
		for _, t := range r.Tables {
			n += t.Untimed
		}
	}
	return n
}

// Repair publishes the rows that no topic has. The report is nil if Repair failed before it had begun.
func Repair(ctx context.Context, o RepairOptions) (*RepairReport, error) {
	o.SkipBad = true
	r, err := newRepair(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	err = r.find(ctx)
	if err == nil && !o.DryRun {
		err = r.publishMissing(ctx)
	}
	r.report.Published, r.report.Examples = r.publisher.rows, r.publisher.examples
	return &r.report, err
}

// repair is a repair at work.
type repair struct {
	o         *RepairOptions
	publisher *publisher
	tables    []*outboxtable.Rows
	report    RepairReport
	leads     map[string]bool           // topics that rows lead to
	read      int64                     // records of the broker
	toRead    int64                     // offsets of the topics that were begun
	events    *hashjoin.Difference      // by the hashes of ids, as records have them
	absent    map[hashjoin.ID]struct{}  // of them, which the broker does not have
	ids       [][]string                // of the rows that are missing, by table; nil: only counted
	removed   map[string]*absence.Topic // by name; a topic that does not exist is not there
	doubt     *absence.Removal          // the latest that concerns a missing row; nil: none does
	compacted compacted
	tail      sink.Reader // of the compacted topics, from the first batch on
}

// newRepair holds a lock on a session of its own until close.
func newRepair(ctx context.Context, o *RepairOptions) (*repair, error) {
	r := &repair{
		o: o, leads: map[string]bool{}, events: hashjoin.NewDifference(""), absent: map[hashjoin.ID]struct{}{},
		removed: map[string]*absence.Topic{}, compacted: newCompacted(),
	}
	r.publisher = &publisher{Pace: o.Pace, run: o.Run, router: o.Router, began: time.Now(), topics: map[string]*Topic{}}
	r.report.ranged, r.report.Publishes = !o.Since.IsZero(), o.Kafka != nil
	for _, name := range o.Topics {
		r.leads[name] = true
	}
	for _, t := range o.Admin.Tables {
		rows, err := outboxtable.Open(ctx, o.DSN, o.Admin, t, outboxtable.Filter{Since: o.Since})
		if err != nil {
			r.close()
			return nil, err
		}
		sayOrder(o.Progress, rows)
		r.tables = append(r.tables, rows)
		r.report.Tables = append(r.report.Tables, &Repaired{Table: t.String(), Examples: []string{}})
	}
	other, err := r.tables[0].Alone(ctx, "cdc-outbox repair "+o.Admin.Slot)
	if err == nil && other != nil {
		err = (&fault.Error{
			Kind: fault.Operator, Object: "repair",
			Err: fmt.Errorf("another one is at work for this slot, and each would publish what the other does. Its "+
				"lock is held by %s", other),
		}).With(other.Remedy())
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *repair) close() {
	r.events.Close()
	for _, rows := range r.tables {
		rows.Close()
	}
	if r.tail != nil {
		r.tail.Close()
	}
}

// find decides which rows are missing. The tables come first, then the broker: this run ignores a row that is
// written in between.
func (r *repair) find(ctx context.Context) error {
	if err := r.survey(ctx); err != nil {
		return err
	}
	if err := r.awaitConnector(ctx); err != nil {
		return err
	}
	doubts, err := r.readTopics(ctx)
	if err == nil {
		err = r.subtract()
	}
	if err != nil {
		return err
	}
	r.report.Found = true
	if err := r.name(ctx); err != nil {
		return err
	}
	if err := r.unproven(); err != nil {
		doubts = append(doubts, err)
	}
	if len(doubts) == 0 {
		return nil
	}
	if r.o.Twice || r.report.Missing() == 0 {
		for _, d := range doubts {
			r.o.Progress.Say(d.Error())
		}
		return nil
	}
	return doubts[0]
}

// awaitConnector waits for the records in flight. Rows that a stopped connector is going to publish would come twice.
func (r *repair) awaitConnector(ctx context.Context) error {
	stop := r.o.Progress.Wait(progress.For("the connector to publish what is committed"))
	start := startLimit
	if r.o.DryRun {
		start = 0
	}
	defer stop()
	paused, err := r.o.Paused(ctx)
	if err != nil {
		return err
	}
	limit := caughtUpLimit
	if paused != "" {
		limit = pausedLimit // it has caught up, or does not before it is resumed
	}
	done, err := setup.AwaitCaughtUp(ctx, r.o.DSN, r.o.Admin, limit, start)
	if err != nil || done {
		return err
	}
	if r.o.DryRun {
		r.o.Progress.Say(
			"The connector does not run or has not caught up: what it is still going to publish counts as missing " +
				"here.",
		)
		return nil
	}
	if paused != "" {
		return (&fault.Error{
			Kind: fault.Operator, Object: "connector",
			Err: errors.New("it is paused, so what is missing cannot be distinguished from what it is still going to " +
				"publish: " + paused),
		}).With(fault.Do("Resume it, then run repair again.", "cdc-outbox resume"))
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "connector",
		Err: errors.New(
			"it does not run or has not caught up, so what is missing cannot be distinguished from what it is " +
				"still going to " +
				"publish",
		),
		Next: "Start it, wait until `cdc-outbox status` shows it streaming, then run repair again.",
	}
}

// publishMissing publishes the rows that find has found.
func (r *repair) publishMissing(ctx context.Context) (err error) {
	if r.report.Missing() == 0 {
		return nil
	}
	if r.o.Kafka == nil {
		return &fault.Error{
			Kind: fault.Operator, Object: "repair",
			Err: fmt.Errorf("%s not in %s, and only the connector publishes there",
				human.Counted(r.report.Missing(), "row is", "rows are"), r.report.Broker),
			Next: "Insert these rows once more, with new ids. Then dismiss the gap, if one is open " +
				"(cdc-outbox repair --dismiss).",
		}
	}
	if r.publisher.sender, err = publish.New(ctx, *r.o.Kafka, r.o.Progress); err != nil {
		return err
	}
	defer r.publisher.sender.Close()
	for i := range r.tables {
		if err := r.publish(ctx, i); err != nil {
			return err
		}
	}
	if bad := r.publisher.bad; bad > 0 {
		return &fault.Error{
			Kind: fault.Operator, Object: "repair", Err: errors.New(
				notPublished(bad),
			), Next: "Their reasons are above.",
		}
	}
	return nil
}

// publish publishes the rows of a table that are missing. To a consumer that keeps the last position of each key they
// must not look older than that position: they get the position in front of the end of the log, at which no commit can
// be, since records of the log begin at multiples of 8.
func (r *repair) publish(ctx context.Context, table int) error {
	end, err := r.tables[table].WALEnd(ctx)
	if err != nil {
		return err
	}
	p := r.publisher
	p.place = end - 1
	before := p.rows
	err = r.each(ctx, table, ignored, func(found foundRow) error {
		if _, missing := r.absent[found.hash]; !missing {
			return nil
		}
		full, err := p.Add(found.Row)
		if full {
			err = errors.Join(r.flush(ctx, r.report.Tables[table]), err)
		}
		return err
	})
	if err == nil {
		err = r.flush(ctx, r.report.Tables[table])
	}
	r.report.Tables[table].Published = p.rows - before
	return err
}

func (r *repair) flush(ctx context.Context, t *Repaired) error {
	if err := r.readOn(ctx); err != nil {
		return err
	}
	left := r.publisher.leaveOut(r.compacted.superseded)
	t.Superseded, t.Missing = t.Superseded+left, t.Missing-left
	if _, err := r.publisher.Flush(ctx); err != nil {
		return err
	}
	r.o.Progress.Step(progress.Step{
		What: "repair", Done: r.publisher.rows, Total: r.report.Missing(), Unit: "rows published",
	})
	return nil
}
