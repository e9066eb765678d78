package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what a step does.
type Kind string

const (
	Commit    Kind = "commit"     // A transactions of B rows each, back to back
	Foreign   Kind = "foreign"    // A bytes of WAL without events
	SaveSlot  Kind = "save slot"  // the server writes the slot to its disk
	CutStream Kind = "cut stream" // all connections of instance A to Postgres; what it had sent arrives if B is 1
	CutBroker Kind = "cut broker" // all connections of instance A to broker B

	HoldPostgres Kind = "hold postgres" // nothing passes between instance A and Postgres
	HoldBroker   Kind = "hold broker"   // nothing passes between instance A and broker B
	Freeze       Kind = "freeze"        // nothing passes between instance A and anything
	SlowBroker   Kind = "slow broker"   // everything between instance A and broker B takes a second longer

	Terminate       Kind = "terminate"        // the session that reads from the slot
	TerminateOthers Kind = "terminate others" // the checkpoint's session
	RestartServer   Kind = "restart server"
	CrashServer     Kind = "crash server"
	LockTable       Kind = "lock table" // of the checkpoint

	StopBroker Kind = "stop broker" // A
	MoveLeader Kind = "move leader" // of partition A
	LostAnswer Kind = "lost answer" // every Bth answer is lost, with its connection
	Refusal    Kind = "refusal"     // every Bth Produce request fails, A says with which code

	CrashInstance Kind = "crash instance" // A; what it had sent arrives if B is 1
	StopInstance  Kind = "stop instance"  // A, gracefully

	Deny            Kind = "deny"             // the rights on the checkpoint's table
	Restore         Kind = "restore"          // the server from a snapshot that is B seconds old
	Fence           Kind = "fence"            // another client calls InitProducerID with every transactional id
	LoseStream      Kind = "lose stream"      // nothing arrives any more on the connections of instance A to Postgres
	LoseBroker      Kind = "lose broker"      // nothing arrives any more on the connections of instance A to broker B
	BusyCoordinator Kind = "busy coordinator" // every Bth request to a coordinator fails, A says with which code
	UnknownProducer Kind = "unknown producer" // every Bth Produce request is answered with UNKNOWN_PRODUCER_ID

	Limit Kind = "limit" // transaction_timeout of a second, and a transaction that takes longer

	Late Kind = "late commit" // a transaction of B rows that commits A ms after rows of later numbers; polling only

	Promote       Kind = "promote"        // the server dies, its standby takes its place; the next comes B s later
	DetachStandby Kind = "detach standby" // the standby is not connected

	Unpublish Kind = "unpublish" // rows are hidden from the stream in way A, among them B transactions at once
	Flicker   Kind = "flicker"   // a transaction that hides its own rows, all of B but the last
)

// Step is one event of a run.
type Step struct {
	At   time.Duration
	Kind Kind
	A, B int
	For  time.Duration // how long it lasts, where it lasts
}

func (s Step) String() string {
	text := fmt.Sprintf("%9.3fs %s %d %d", s.At.Seconds(), s.Kind, s.A, s.B)
	if s.For > 0 {
		text += fmt.Sprintf(" for %s", s.For.Round(time.Millisecond))
	}
	return text
}

// Plan is everything that a run consists of. It follows from a seed, and can be shortened.
type Plan struct {
	Seed        uint64
	Instances   int
	ExactlyOnce bool
	Brokers     int
	Version     int
	Window      int
	RequestTime time.Duration // kafka's request timeout
	NoMemory    bool          // postgres.checkpoint: off
	Kafka4      bool
	Request     int           // bytes of a request that counts as full, 0: as configured by default
	OffsetTime  time.Duration // between a transaction's end and its offsets
	Stale       bool          // what a process had sent may arrive after its end
	Lag         time.Duration // of the physical standby, 0: there is none
	CopyTime    time.Duration // between two updates of the standby's copy of the slot
	Gate        string        // postgres.wait_for_standbys, empty for none
	Polling     int           // workers of source: polling; 0: the log is read
	Batch       int           // polling.batch
	Delete      bool          // polling.after: delete
	LookEvery   time.Duration // monitor.interval; 0: no account of gaps is kept
	Steps       []Step
	graceful    bool  // all steps are harmless
	kept        []int // numbers of the steps in the seed's own plan, nil for all
}

func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d instance(s), exactly once %v, %d broker(s), server %d, window %d, request timeout "+
		"%s, checkpoint %v, Kafka 4 %v, requests of %d, offsets take %s\n",
		p.Seed, p.Instances, p.ExactlyOnce, p.Brokers, p.Version, p.Window, p.RequestTime, !p.NoMemory,
		p.Kafka4, p.Request, p.OffsetTime)
	if p.Lag > 0 {
		fmt.Fprintf(&b, "  a standby lags by %s, its copy of the slot by %s, the gate waits for %q\n", p.Lag,
			p.CopyTime, p.Gate)
	}
	if p.LookEvery > 0 {
		fmt.Fprintf(&b, "  gaps are looked for every %s\n", p.LookEvery)
	}
	if p.Polling > 0 {
		fmt.Fprintf(&b, "  source: polling, %d workers, batches of %d, rows are deleted %v\n", p.Polling, p.Batch,
			p.Delete)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	return b.String()
}

// has reports whether the plan holds a step of one of the kinds.
func (p *Plan) has(kinds ...Kind) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return slices.Contains(kinds, s.Kind) })
}

// only reports whether the plan has steps of no other kinds.
func (p *Plan) only(kinds []Kind) bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return !slices.Contains(kinds, s.Kind) })
}

// faults are the kinds that a seed chooses from, with how often each is chosen.
var faults = []struct {
	kind   Kind
	weight int
}{
	{CutStream, 4},
	{CutBroker, 4},
	{HoldPostgres, 2},
	{HoldBroker, 3},
	{Freeze, 3},
	{SlowBroker, 2},
	{Terminate, 4},
	{TerminateOthers, 1},
	{RestartServer, 2},
	{CrashServer, 2},
	{LockTable, 1},
	{StopBroker, 3},
	{MoveLeader, 3},
	{LostAnswer, 3},
	{Refusal, 3},
	{CrashInstance, 4},
	{StopInstance, 2},
	{Deny, 1},
	{Restore, 1},
	{Fence, 1},
	{Limit, 1},
}

// Switches say which faults and forms of operation are used.
type Switches struct {
	Pairs       bool // two instances at a time
	ExactlyOnce bool
	// Stale: what a process had sent before it ended may arrive long after, when its successor is at work.
	Stale   bool
	Without map[Kind]bool
}

// NewPlan draws a plan from the seed.
func NewPlan(seed uint64, sw Switches) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	p := &Plan{
		Seed: seed, Instances: 1, Brokers: 1 + r.IntN(3), Version: []int{150018, 170007}[r.IntN(2)],
		Window:      []int{5, 50, 1000, 100_000}[r.IntN(4)],
		RequestTime: []time.Duration{2 * time.Second, 5 * time.Second, 30 * time.Second}[r.IntN(3)],
	}
	pair, once := r.IntN(2) == 0, r.IntN(2) == 0
	if pair && sw.Pairs {
		p.Instances = 2
	}
	p.ExactlyOnce, p.Stale = once && sw.ExactlyOnce, sw.Stale
	length := time.Duration(5+r.IntN(25)) * time.Second
	instant := func() time.Duration { return time.Duration(r.Int64N(int64(length))) }
	for range 5 + r.IntN(40) {
		p.Steps = append(p.Steps, Step{At: instant(), Kind: Commit, A: 1 + r.IntN(3), B: 1 + r.IntN(6)})
	}
	for range r.IntN(6) {
		p.Steps = append(p.Steps, Step{At: instant(), Kind: Commit, A: 1, B: 20 + r.IntN(100)})
	}
	for range r.IntN(5) {
		p.Steps = append(p.Steps, Step{At: instant(), Kind: Foreign, A: 8 + r.IntN(5000)})
	}
	for range r.IntN(3) {
		p.Steps = append(p.Steps, Step{At: instant(), Kind: SaveSlot})
	}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for range r.IntN(7) {
		n, i := r.IntN(total), 0
		for ; n >= faults[i].weight; i++ {
			n -= faults[i].weight
		}
		s := p.fault(r, faults[i].kind)
		s.At = instant()
		if !sw.Without[s.Kind] {
			p.Steps = append(p.Steps, s)
		}
	}
	p.Kafka4 = r.IntN(2) == 0
	p.harder(sw, length)
	p.standby(sw, length)
	p.gaps(sw, length)
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}

// fault draws the particulars of a fault.
func (p *Plan) fault(r *rand.Rand, kind Kind) Step {
	s := Step{Kind: kind, A: r.IntN(2), B: r.IntN(2)}
	some := func(most time.Duration) time.Duration {
		return 10*time.Millisecond + time.Duration(r.Int64N(int64(most)))
	}
	switch kind {
	case CutBroker, HoldBroker, SlowBroker:
		s.B = r.IntN(p.Brokers)
	case StopBroker:
		s.A = r.IntN(p.Brokers)
	case MoveLeader:
		s.A = r.IntN(6)
	case LostAnswer:
		s.B = 1 + r.IntN(4)
	case Refusal:
		s.A, s.B = r.IntN(len(refusals)), 1+r.IntN(4)
	case Restore:
		s.B = 1 + r.IntN(10)
	}
	switch kind {
	case HoldPostgres, HoldBroker, Freeze, SlowBroker, LockTable, Limit:
		s.For = some(25 * time.Second)
	case RestartServer, CrashServer, StopBroker, CrashInstance, StopInstance, Restore, Deny:
		s.For = some(8 * time.Second)
	case LostAnswer, Refusal:
		s.For = some(4 * time.Second)
	}
	return s
}

// refusals are codes of a Produce request; the ones marked were appended all the same.
var refusals = []struct {
	code     int16
	appended bool
}{{19, false}, {20, true}, {7, true}, {56, false}, {6, false}, {2, false}}
