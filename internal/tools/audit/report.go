package audit

import (
	"errors"
	"math"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Kind is the kind of a finding about an event.
type Kind string

const (
	// Unpublished: the row is committed, the relay has not confirmed it, and no ledger has it.
	Unpublished Kind = "unpublished"
	// Unhandled: the row is published, and the ledger does not have it.
	Unhandled Kind = "unhandled"
	// Unfinished: the ledger has begun with it and did not say how it ended, so a repeat may be a second effect.
	Unfinished Kind = "unfinished"
	// SameID: several rows share the id, so that the effect of all but one is missing.
	SameID Kind = "same_id"
	// Ghost: the ledger has handled an id that the outbox does not have.
	Ghost Kind = "ghost"
)

// Kinds are all of them, in the order of a report.
func Kinds() []Kind { return []Kind{Unpublished, Unhandled, Unfinished, SameID, Ghost} }

// Report is the result of an audit.
type Report struct {
	Since     time.Time  `json:"since"`
	Until     time.Time  `json:"until"`
	Within    float64    `json:"within_seconds"`      // the objective for the time from commit to handling
	Confirmed bool       `json:"confirmed"`           // the relay had confirmed everything when the audit began
	HeldBack  *HeldBack  `json:"held_back,omitempty"` // by an open transaction
	Oldest    time.Time  `json:"oldest_row,omitzero"` // from when on the rows of all tables are known
	Unseen    []Unseen   `json:"unseen,omitempty"`
	Archives  *Archives  `json:"archives,omitempty"`
	Clean     bool       `json:"clean"`
	Consumers []Consumer `json:"consumers"`
}

// Unseen is a part of the window, from its begin on, in which neither the table nor an archive has rows. If there were
// any, they were deleted.
type Unseen struct {
	Table string    `json:"table"`
	Until time.Time `json:"until"`
}

// Consumer is the audit's result for one ledger.
type Consumer struct {
	Name      string           `json:"consumer"`
	Events    int64            `json:"events"`  // rows of the window
	Handled   int64            `json:"handled"` // of them
	Late      int64            `json:"late"`    // later than the objective, or not yet and it is over
	Seconds   Percentiles      `json:"commit_to_handled_seconds"`
	Findings  map[Kind]Finding `json:"findings"`
	NotJudged int64            `json:"not_judged"` // handled, and their rows may have been deleted from the table

	ages ages
	most int // ids in a finding
}

// Finding is the events of one kind.
type Finding struct {
	Count         int64     `json:"count"`
	OldestSeconds float64   `json:"oldest_age_seconds"`
	Examples      []Example `json:"examples"` // the first ones by id
}

// Example is one event.
type Example struct {
	ID         string    `json:"id"`
	At         time.Time `json:"at"` // of the row; of the handling for a ghost
	AgeSeconds float64   `json:"age_seconds"`
}

// Percentiles are durations in seconds, within 2 percent.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (c *Consumer) add(kind Kind, id string, at, now time.Time) {
	f := c.Findings[kind]
	age := now.Sub(at).Seconds()
	f.Count++
	f.OldestSeconds = max(f.OldestSeconds, age)
	if len(f.Examples) < c.most {
		f.Examples = append(f.Examples, Example{ID: id, At: at.UTC(), AgeSeconds: age})
	}
	c.Findings[kind] = f
}

// Err is the error of an audit that has found something.
func (r *Report) Err() error {
	if r.Clean {
		return nil
	}
	var n int64
	for i := range r.Consumers {
		for _, f := range r.Consumers[i].Findings {
			n += f.Count
		}
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "audit",
		Err:  errors.New(human.Counted(n, "event", "events") + " found that are not published and handled once"),
		Next: "Follow docs/audit.md, which has a remedy for each kind.",
	}
}

// ages is a histogram whose buckets are 2 percent wide: flat memory for any number of events.
type ages struct {
	buckets [2048]int64
	n       int64
	max     float64
}

const width = 1.02

func (a *ages) add(d time.Duration) {
	s := max(d.Seconds(), 0)
	i := min(int(math.Log1p(s*1000)/math.Log(width)), len(a.buckets)-1)
	a.buckets[i]++
	a.n++
	a.max = max(a.max, s)
}

func (a *ages) percentiles() Percentiles {
	return Percentiles{P50: a.quantile(0.5), P90: a.quantile(0.9), P99: a.quantile(0.99), Max: a.max}
}

// quantile returns the upper end of the bucket in which the quantile is, no more than the maximum.
func (a *ages) quantile(q float64) float64 {
	rank, seen := int64(math.Ceil(q*float64(a.n))), int64(0)
	for i, n := range a.buckets {
		if seen += n; n > 0 && seen >= rank {
			return min((math.Pow(width, float64(i+1))-1)/1000, a.max)
		}
	}
	return 0
}
