package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// standby draws, from a source of its own, a physical standby, whether the relay waits for it, and when it is promoted.
func (p *Plan) standby(sw Switches, length time.Duration) {
	r := rand.New(rand.NewPCG(p.Seed, 0x57a2d))
	if r.IntN(4) > 0 {
		return
	}
	p.Lag = []time.Duration{3 * time.Millisecond, 40 * time.Millisecond, 400 * time.Millisecond}[r.IntN(3)]
	p.CopyTime = []time.Duration{200 * time.Millisecond, 5 * time.Second}[r.IntN(2)]
	p.Gate = []string{"", standbyName, standbyName, standbys.AsServer}[r.IntN(4)]
	var commits []Step
	for _, s := range p.Steps {
		if s.Kind == Commit {
			commits = append(commits, s)
		}
	}
	for range r.IntN(3) {
		s := Step{
			At: time.Duration(r.Int64N(int64(length))), Kind: DetachStandby,
			For: 10*time.Millisecond + time.Duration(r.Int64N(int64(8*time.Second))),
		}
		if !sw.Without[s.Kind] {
			p.Steps = append(p.Steps, s)
		}
	}
	if p.graceful || sw.Without[Promote] {
		return
	}
	for range r.IntN(4) {
		s := Step{
			At:   commits[r.IntN(len(commits))].At + time.Duration(r.Int64N(int64(p.Lag+20*time.Millisecond))),
			Kind: Promote, B: r.IntN(4), For: 10*time.Millisecond + time.Duration(r.Int64N(int64(5*time.Second))),
		}
		p.Steps = append(p.Steps, s)
	}
	if p.has(Promote) { // a server is restored or replaced: after both, anything may be missing
		p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.Kind == Restore })
	}
}

// copySlot keeps the standby's copy of the slot up to date while the steps last.
func (w *world) copySlot() {
	if !w.plan.has(Promote) {
		return
	}
	last := w.plan.Steps[len(w.plan.Steps)-1].At
	for at := w.plan.CopyTime; at <= last; at += w.plan.CopyTime {
		w.later(at, "copy of the slot", w.postgres.CopySlot)
	}
}

// promote: the server dies, and its standby takes its place. Another standby follows it later.
func (w *world) promote(s Step) {
	w.postgres.Stop(true)
	lost := w.postgres.Promote()
	w.postgres.DetachStandby(true)
	w.mu.Lock()
	w.promoted = true
	for _, row := range lost {
		w.lost = append(w.lost, row.ID)
	}
	w.mu.Unlock()
	w.later(s.For, string(s.Kind), w.postgres.Start)
	w.later(s.For+time.Duration(s.B)*time.Second, "no standby", func() { w.postgres.DetachStandby(false) })
}

// judgeGhosts: where the relay waits for the standby, nothing that a failover to it takes back is in Kafka.
func (w *world) judgeGhosts() {
	if w.plan.Gate == "" {
		return
	}
	w.mu.Lock()
	ghosts := slices.DeleteFunc(slices.Clone(w.lost), func(id string) bool { return !w.has(id) })
	w.mu.Unlock()
	if len(ghosts) > 0 {
		w.wrong("P", "%d events are in Kafka that the promoted server does not have, the first is %s", len(ghosts),
			ghosts[0])
	}
}

// mayRefusePromoted reports whether a promoted server may be refused for this.
func (w *world) mayRefusePromoted(err error) bool {
	switch text := err.Error(); {
	case strings.Contains(text, "the slot there is not the slot that was read"):
		// Before 17 nothing shows that the slot is a tool's copy. It may be ahead of the checkpoint: the standby may
		// have the slot's position, and not yet the row that was written before the slot was moved there.
		return w.plan.Version < 170000
	case strings.Contains(text, "is not one that a standby had kept"):
		// An instance that had the slot before events were lost, and gets it back when another instance has moved it.
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.plan.Gate == "" && len(w.lost) > 0
	}
	return false
}
