package simulation

import (
	"math/rand/v2"
	"slices"
	"time"
)

// harder draws, from a source of its own, what was added to the plans later, so that what a seed had before stays.
func (p *Plan) harder(sw Switches, length time.Duration) {
	r := rand.New(rand.NewPCG(p.Seed, 0xfade))
	p.Request = []int{0, 0, 400, 3000}[r.IntN(4)]
	p.OffsetTime = []time.Duration{time.Microsecond, 20 * time.Millisecond, 200 * time.Millisecond}[r.IntN(3)]
	if r.IntN(8) == 0 {
		p.calm(r)
		return
	}
	if r.IntN(3) > 0 {
		return
	}
	kind := []Kind{LoseStream, LoseBroker, BusyCoordinator, UnknownProducer}[r.IntN(4)]
	s := Step{At: time.Duration(r.Int64N(int64(length))), Kind: kind, A: r.IntN(2), B: r.IntN(p.Brokers)}
	switch kind {
	case BusyCoordinator:
		s.A, s.B = r.IntN(len(busy)), 1+r.IntN(3)
		s.For = 10*time.Millisecond + time.Duration(r.Int64N(int64(4*time.Second)))
	case UnknownProducer:
		s.A, s.B = 0, 3+r.IntN(5)
		s.For = 10*time.Millisecond + time.Duration(r.Int64N(int64(time.Second)))
	}
	if sw.Without[kind] {
		return
	}
	p.Steps = append(p.Steps, s)
	if kind == BusyCoordinator && p.ExactlyOnce && r.IntN(2) == 0 {
		p.relyOnKafka(r, s)
	}
}

// relyOnKafka locks the checkpoint's table while a coordinator is busy, and crashes instances meanwhile: with exactly
// once, only the position in Kafka says what is published. With at least once, a write that waits for the lock when
// its process dies, and is worked on afterwards, moves the checkpoint past what the next process repeats.
func (p *Plan) relyOnKafka(r *rand.Rand, during Step) {
	before := max(0, during.At-time.Second)
	p.Steps = append(p.Steps, Step{At: before, Kind: LockTable, For: during.For + 3*time.Second})
	for i := range 3 {
		at := during.At + time.Duration(r.Int64N(int64(during.For)))
		p.Steps = append(p.Steps,
			Step{At: at, Kind: Commit, A: 1 + r.IntN(3), B: 1 + r.IntN(3)},
			Step{
				At: at + 5*time.Millisecond + time.Duration(r.Int64N(int64(50*time.Millisecond))), Kind: CrashInstance,
				A: i, For: time.Second,
			})
	}
}

// calm replaces the faults by graceful stops, each within moments after a commit. Nothing may be repeated then.
func (p *Plan) calm(r *rand.Rand) {
	p.graceful = true
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return !slices.Contains(harmless, s.Kind) })
	var commits []Step
	for _, s := range p.Steps {
		if s.Kind == Commit {
			commits = append(commits, s)
		}
	}
	for range 1 + r.IntN(5) {
		s := Step{Kind: StopInstance, A: r.IntN(2), For: time.Second + time.Duration(r.Int64N(int64(3*time.Second)))}
		s.At = commits[r.IntN(len(commits))].At + time.Duration(r.Int64N(int64(20*time.Millisecond)))
		p.Steps = append(p.Steps, s)
	}
}

// harmless are the steps after which nothing may be repeated.
var harmless = []Kind{Commit, Late, Foreign, SaveSlot, StopInstance, DetachStandby}

// busy are codes of a coordinator that has no time.
var busy = []int16{14, 16, 51}
