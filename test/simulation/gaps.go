package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// gaps draws, from a source of its own, whether an account of gaps is kept, how often the relay looks at it, and what
// hides rows from the stream.
func (p *Plan) gaps(sw Switches, length time.Duration) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6a95))
	if r.IntN(6) > 0 || p.graceful {
		return
	}
	p.LookEvery = []time.Duration{500 * time.Millisecond, time.Second, 5 * time.Second}[r.IntN(3)]
	for range r.IntN(4) {
		s := Step{
			At: time.Duration(r.Int64N(int64(length))), Kind: []Kind{Unpublish, Flicker}[r.IntN(2)],
			A: r.IntN(int(walsender.Hidings)), B: r.IntN(3),
		}
		longest := []time.Duration{20 * time.Millisecond, 2 * time.Second, 5 * p.LookEvery}[r.IntN(3)]
		s.For = time.Millisecond + time.Duration(r.Int64N(int64(longest)))
		if s.Kind == Flicker {
			s.B += 2
		}
		if !sw.Without[s.Kind] {
			p.Steps = append(p.Steps, s)
		}
	}
}

// hide hides rows from the stream: until the publication is put right, or within a transaction that nothing shows
// while it runs.
func (w *world) hide(s Step) {
	if s.Kind == Flicker {
		w.later(s.For, string(s.Kind), w.postgres.HideWithin(w.transactions(1, s.B)[0]))
		return
	}
	w.postgres.Hide(walsender.Hiding(s.A))
	if s.B > 0 {
		w.commit(s.B, 2)
	}
	w.later(s.For, string(s.Kind), w.putRight)
}

// putRight is what an operator does about hidden rows, and about instances that have ended because of them.
func (w *world) putRight() {
	for !w.postgres.Publish() {
		time.Sleep(100 * time.Millisecond)
	}
	for _, in := range w.instances {
		in.revive()
	}
}

// revive starts a process that has ended because rows were hidden from its stream.
func (in *instance) revive() {
	in.mu.Lock()
	was := in.unfit
	in.unfit = false
	in.mu.Unlock()
	if was {
		in.start()
	}
}

// beginAccount is the part of setup that concerns gaps.
func (w *world) beginAccount() {
	if w.plan.LookEvery == 0 {
		return
	}
	const setup = "setup"
	a := account{table: gap.Of(objects), dial: w.net.Dialer(setup)}
	err := a.with(context.Background(), func(ctx context.Context, l *looks) error { return l.begin(ctx) })
	if err != nil {
		w.wrong("E", "setup: %v", err)
	}
}

// accountStands reports whether the account has taken everything in.
func (w *world) accountStands() bool {
	if w.plan.LookEvery == 0 {
		return true
	}
	state := w.postgres.Look()
	return uncovered(&state) == "" && lasting(&state) == nil
}

func lasting(s *walsender.State) *walsender.Gap {
	for i := range s.Gaps {
		if s.Gaps[i].Lasts() {
			return &s.Gaps[i]
		}
	}
	return nil
}

// uncovered is an event that is hidden from the stream and in no gap, empty if there is none.
func uncovered(s *walsender.State) string {
	for i := range s.Log {
		t := &s.Log[i]
		for _, row := range t.Rows {
			if row.Hidden && !inGap(s.Gaps, t) {
				return row.ID
			}
		}
	}
	return ""
}

// inGap reports whether a repair would look at the transaction's rows.
func inGap(gaps []walsender.Gap, t *walsender.Txn) bool {
	for i := range gaps {
		g := &gaps[i]
		if g.Cause == "none" {
			continue
		}
		begins := g.FromLSN == nil || walsender.ParseLSN(*g.FromLSN) <= t.Began && !g.FromAt.After(t.BeganAt)
		if begins && (g.Lasts() || t.Commit <= walsender.ParseLSN(*g.ToLSN) && !g.ToAt.Before(t.At)) {
			return true
		}
	}
	return false
}

// judgeGaps: W, and that nothing is called a gap without a cause.
func (w *world) judgeGaps() {
	if w.plan.LookEvery == 0 || w.stopped() {
		return
	}
	s := w.postgres.Look()
	if id := uncovered(&s); id != "" {
		w.wrong("W", "%s was hidden from the stream and lies in no gap", id)
	}
	if g := lasting(&s); g != nil {
		w.wrong("W", "gap %d lasts, and nothing is hidden any more: %s", g.ID, g.What)
	}
	for i := range s.Gaps {
		if g := &s.Gaps[i]; g.Cause != "none" && !caused(g, s.Catalog.Changes) {
			w.wrong("W", "gap %d (%s) was opened by nothing", g.ID, g.Cause)
		}
	}
}

// caused reports whether a change that may have hidden rows lies within the gap.
func caused(g *walsender.Gap, changes []walsender.LSN) bool {
	for _, at := range changes {
		if (g.FromLSN == nil || walsender.ParseLSN(*g.FromLSN) <= at) &&
			(g.ToLSN == nil || at <= walsender.ParseLSN(*g.ToLSN)) {
			return true
		}
	}
	return false
}
