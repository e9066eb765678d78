package polling

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// outcome is what the search lets become of a step.
type outcome uint8

const (
	outcomeGood   outcome = iota
	outcomeCut            // the connection is lost, and the server did not get the statement
	outcomeLost           // the server did what it was asked, and the connection is lost before it answers
	outcomeCrash          // the process ends
	outcomeFreeze         // the server ends the session of a process that is frozen, and does not know it yet
)

// version is a row's: an UPDATE by an operator makes a newer one.
type version struct{ seq, number int }

// world is one table with rows of one lane, one partition of a topic, and the processes that poll. The code of a worker
// between two statements is the package's, from claim to mark; the server and the producer are stand-ins.
type world struct {
	scenario *scenario
	mutant   *mutant
	rows     []version
	marked   map[int]bool
	holder   *laneConn // whose transaction has the lane's lock
	log      []version // the partition
	procs    []*process
	faults   int
	naps     int
	freezes  int
	edits    int
	faulty   bool // something was lost
	wrong    error
	turn     sync.Mutex
}

// pass orders what one goroutine did before what the next one does. Only one runs at a time, but the race detector does
// not know that a timer has woken it.
func (w *world) pass() {
	w.turn.Lock()
	w.turn.Unlock() //nolint:staticcheck // it protects nothing
}

// process is a relay with its workers.
type process struct {
	sink.Producer

	*Relay
	world   *world
	actors  []*actor
	pending []inFlight // in the order of Produce
	crashed bool
	cancel  context.CancelFunc
}

type inFlight struct {
	version
	ticket uint64
	size   int
}

// actor is a worker's goroutine. It stops before each statement.
type actor struct {
	proc    *process
	index   int
	resume  chan outcome
	at      string // where it stopped; empty: it waits for an acknowledgement, or for time to pass
	over    bool
	history strings.Builder // what it was answered
}

func (a *actor) stop(at string) outcome {
	a.proc.world.pass()
	if a.proc.crashed {
		runtime.Goexit()
	}
	a.at = at
	o := <-a.resume
	a.at = ""
	if o == outcomeCrash {
		runtime.Goexit()
	}
	return o
}

func (a *actor) note(format string, args ...any) {
	a.proc.world.pass()
	fmt.Fprintf(&a.history, format+";", args...)
}

var modelMetrics = telemetry.NewMetrics(prometheus.NewRegistry())

const theLane = 5

// start makes a process. Its workers stop before their first statement.
func (w *world) start(workers int) *process {
	p := &process{world: w, Relay: &Relay{
		cfg: Config{Columns: columns(), Metrics: modelMetrics, Workers: workers, Batch: 10, DrainLimit: time.Second},
		log: zap.NewNop(), window: offsets.NewWindow(100, 1<<20), stopping: make(chan struct{}),
		wake: make(chan struct{}, 1), scout: make(chan struct{}, 1), state: relay.State{Name: relay.Starting},
	}}
	p.producer = p
	s := &source{
		statements: newStatements(&p.cfg, theTable), halted: map[int]*halt{}, decided: map[int]relay.Decision{},
	}
	p.sources = []*source{s}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.procs = append(w.procs, p)
	for i := range workers {
		a := &actor{proc: p, index: i, resume: make(chan outcome)}
		wk := newWorker(p.Relay, i, oneRouter{})
		wk.conn = &laneConn{actor: a}
		p.workers = append(p.workers, wk)
		p.actors = append(p.actors, a)
		go a.run(ctx, wk, s)
	}
	synctest.Wait()
	return p
}

// run makes rounds, as worker.run does, until nothing is left or the scenario's rounds are over.
func (a *actor) run(ctx context.Context, wk *worker, s *source) {
	defer func() {
		a.proc.world.pass()
		a.over = true
	}()
	for range a.proc.world.scenario.rounds {
		if a.proc.world.mutant.ownsNothing {
			s.lanes.give([]int{theLane})
		}
		worked, err := wk.round(ctx, s)
		a.note("round %v %v", worked, err)
		switch {
		case err != nil && fault.KindOf(err) != fault.Retry:
			a.proc.world.wrong = fmt.Errorf("the worker ends: %w", err)
			return
		case err != nil:
			a.stop("retry")
		case !worked:
			a.stop("idle")
		}
	}
}

// oneRouter sends a row as it is.
type oneRouter struct{ router.Router }

func (oneRouter) Prepare(*pgoutput.Relation) error { return nil }

func (oneRouter) Route(_ *pgoutput.Relation, row pgoutput.Tuple, _ router.Source) (*router.Record, error) {
	return &router.Record{Topic: "t", Key: []byte("k"), Value: append([]byte{}, row[0].Data...)}, nil
}

// Produce implements producer.
func (p *process) ProduceAt(_ context.Context, rec *router.Record, ticket uint64, _ sink.Position) error {
	p.world.pass()
	var f inFlight
	if _, err := fmt.Sscanf(string(rec.Value), "%d/%d", &f.seq, &f.number); err != nil {
		panic(err)
	}
	f.ticket, f.size = ticket, rec.Size()
	p.pending = append(p.pending, f)
	if p.world.mutant.acksEarly {
		p.acked(sink.Delivery{Topic: "t", Tickets: []uint64{ticket}, Bytes: int64(f.size)})
	}
	return nil
}

func (p *process) Run(context.Context) error   { return nil }
func (p *process) Abandon() sink.Dropped       { return sink.Dropped{} }
func (p *process) Drain(context.Context) error { return nil }
func (p *process) Flush()                      {}
func (p *process) Refresh()                    {}
func (p *process) Grown() []sink.Growth        { return nil }
func (p *process) Trouble() []sink.Trouble     { return nil }

// append lets the broker take the next record, and acknowledges it unless the process has ended.
func (p *process) append() {
	next := p.pending[0]
	p.pending = p.pending[1:]
	p.world.log = append(p.world.log, next.version)
	if !p.crashed && !p.world.mutant.acksEarly {
		p.acked(sink.Delivery{Topic: "t", Tickets: []uint64{next.ticket}, Bytes: int64(next.size)})
	}
	synctest.Wait()
}

// crash ends a process. What it has sent may still arrive at the broker.
func (p *process) crash() {
	p.world.pass()
	p.crashed = true
	p.cancel()
	for _, a := range p.actors {
		if a.at != "" {
			a.resume <- outcomeCrash
		}
	}
	synctest.Wait()
}

// end ends what goes on.
//
//waits:bubble
func (w *world) end() {
	for _, p := range w.procs {
		if !p.crashed {
			p.crash()
		}
	}
	w.pass()
	time.Sleep(time.Minute) // timers of what was waited for
	synctest.Wait()
}

// laneConn is a worker's connection. Each call is one message to the server, which does all of it or nothing.
type laneConn struct {
	actor    *actor
	open     bool // a transaction
	ended    bool // by the server, which the worker does not know
	snapshot []version
}

var _ claims = (*laneConn)(nil)

var errLost = &fault.Error{Kind: fault.Retry, Object: "connection", Err: errors.New("lost")}

// step lets the search decide what becomes of the message.
func (c *laneConn) step(name string, do func()) error {
	o := c.actor.stop(name)
	if c.ended {
		c.ended = false
		c.actor.note("%s lost", name)
		return errLost
	}
	switch o {
	case outcomeCut, outcomeLost:
		if o == outcomeLost {
			do()
		}
		c.drop()
		c.actor.note("%s lost", name)
		return errLost
	}
	do()
	return nil
}

// drop is the end of the session: its transaction is rolled back.
func (c *laneConn) drop() {
	c.open = false
	if w := c.actor.proc.world; w.holder == c {
		w.holder = nil
	}
}

func (c *laneConn) close() { c.drop() }

// lock is pg_try_advisory_xact_lock, in a new transaction.
func (c *laneConn) lock() (got []int) {
	w := c.actor.proc.world
	c.open = true
	if w.holder == nil || w.holder == c || w.mutant.noLock {
		w.holder = c
		return []int{theLane}
	}
	return nil
}

func (c *laneConn) claim(_ context.Context, _ *statements, candidates []int, _ int) (got []int, more bool, err error) {
	w := c.actor.proc.world
	looks := false
	err = c.step("claim", func() {
		c.open, c.snapshot = true, w.unpublished()
		looks = slices.Contains(candidates, theLane) && len(c.snapshot) > 0
	})
	if err == nil && looks { // one statement, but its snapshot is older than its lock
		err = c.step("lock", func() { got = c.lock() })
		more = len(got) == 0
	}
	c.actor.note("claim %v %v", looks, got)
	if err != nil {
		return nil, false, err
	}
	return got, more, nil
}

func (c *laneConn) read(_ context.Context, _ *statements, claimed []int, perLane, _ int, _ *pgoutput.Relation, b *batch,
) error {
	w := c.actor.proc.world
	err := c.step("read", func() {
		rows := w.unpublished()
		if w.mutant.readsTooEarly {
			rows = c.snapshot
		}
		b.relation = &pgoutput.Relation{Columns: []pgoutput.Column{{Name: "payload"}}}
		for _, r := range rows[:min(len(rows), perLane)] {
			tid := fmt.Appendf(nil, "(%d,%d)", r.seq, r.number)
			b.add(batchRow{lane: claimed[0], seq: int64(r.seq), part: []byte("1"), tid: tid},
				[][]byte{fmt.Appendf(nil, "%d/%d", r.seq, r.number)})
		}
		c.actor.note("read %v", rows)
	})
	return err
}

func (c *laneConn) renew(_ context.Context, _ *statements, marks string, _ []int) (got []int, err error) {
	w := c.actor.proc.world
	if w.mutant.gap {
		if err := c.step("renew", func() { c.mark(marks); c.drop() }); err != nil {
			return nil, err
		}
		marks = ""
	}
	err = c.step("claim again", func() { c.mark(marks); got = c.lock() })
	c.actor.note("renewed %v", got)
	return got, err
}

func (c *laneConn) finish(_ context.Context, _ *statements, marks string) error {
	if !c.open && marks == "" {
		return nil
	}
	err := c.step("finish", func() { c.mark(marks); c.drop() })
	if c.actor.proc.world.mutant.marksOnce {
		return nil
	}
	return err
}

var markedTIDs = regexp.MustCompile(`\((\d+),(\d+)\)`)

// mark takes the numbers and addresses out of the statement, and marks the versions that are there.
func (c *laneConn) mark(sql string) {
	w := c.actor.proc.world
	_, tids, _ := strings.Cut(sql, "oid[], ")
	tids, _, _ = strings.Cut(tids, "::tid[]")
	for _, m := range markedTIDs.FindAllStringSubmatch(tids, -1) {
		seq, _ := strconv.Atoi(m[1])
		number, _ := strconv.Atoi(m[2])
		if w.rows[seq-1].number == number || w.mutant.anyVersion {
			w.marked[seq] = true
		}
	}
}

func (w *world) unpublished() (rows []version) {
	for _, r := range w.rows {
		if !w.marked[r.seq] {
			rows = append(rows, r)
		}
	}
	return rows
}
