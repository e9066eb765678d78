package standbys

import (
	"cmp"
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

const (
	firstPause = time.Millisecond
	maxPause   = 100 * time.Millisecond
	// failedPause follows a query that failed.
	failedPause = 500 * time.Millisecond
	// idleLook is how often the gate looks whether it is still not needed.
	idleLook = time.Second
	// lookLimit bounds one query, with the connection for it.
	lookLimit = 10 * time.Second
)

// Config is what a Gate needs.
type Config struct {
	Demand                          // without names nothing is held back, and what the server holds back is reported
	DSN      func() (string, error) // of the server that the stream is read from
	Slot     string                 // the stream's
	Patience time.Duration          // after which a wait is logged; default 15 s
	Dial     pgconn.DialFunc        // opens the connections; default: as the DSN says
	Logger   *zap.Logger            // default: none
}

// Gate holds transactions back until the standbys have them. Follow, Passed, Ask, Elsewhere and Withdraw are for
// one goroutine, the reader of the stream; the other methods may be called from anywhere.
type Gate struct {
	cfg       Config
	log       *zap.Logger
	askServer func(ctx context.Context) (*Look, error) // replaced in tests
	wake      chan struct{}                            // capacity 1: there is a request
	elsewhere chan struct{}                            // capacity 1: see Elsewhere

	passed atomic.Uint64 // commits that begin before it may be published
	waited atomic.Int64  // nanoseconds, of requests that are over

	mu      sync.Mutex
	pid     uint32 // of the stream's session
	horizon horizon
	request *request          // nil: nothing waits
	trouble *trouble          // why the request waits, or the server does; nil: nothing to report
	slots   map[string]string // see Demand.judge

	unseen  bool      // the server of this stream has not answered yet
	doubted time.Time // since when another server than the stream's answers

	conn      *pgx.Conn // of Run's goroutine, like the rest
	watch     bool      // what the server does for the standbys has to be looked at again and again
	mode      mode
	logged    mode
	saidSince time.Time // of the wait that was logged
}

// request is a transaction that waits.
type request struct {
	commit    lsn.LSN
	committed time.Time
	since     time.Time
	target    lsn.LSN // not before the end of its commit record; 0: not known yet
	done      chan struct{}
}

// mode is why nothing has to be waited for.
type mode uint8

const (
	waits   mode = iota
	stepped      // the server holds the stream back
	nobody       // synchronous_standby_names is empty
)

// New returns a gate. It connects to nothing before Run.
func New(cfg Config) *Gate {
	cfg.Patience = cmp.Or(cfg.Patience, 15*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	g := &Gate{
		cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), elsewhere: make(chan struct{}, 1),
		slots: map[string]string{},
	}
	g.askServer = g.query
	return g
}

// Follow begins with another stream, of this session; 0: there is none. What is known of an earlier stream's server is
// forgotten.
func (g *Gate) Follow(pid uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pid, g.horizon, g.trouble = pid, horizon{}, nil
	g.passed.Store(0)
	g.unseen = pid != 0
	clear(g.slots)
	g.trust()
	g.dropRequest()
	g.nudge()
}

// Passed reports whether the transaction whose commit record begins there may be published.
func (g *Gate) Passed(commit lsn.LSN) bool {
	return uint64(commit) < g.passed.Load() || len(g.cfg.Names) == 0
}

// Ask asks for a transaction that has not passed. The channel is closed when it may be published. Call Withdraw where
// that is no longer waited for.
func (g *Gate) Ask(commit lsn.LSN, committed time.Time) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropRequest()
	g.request = &request{commit: commit, committed: committed, since: time.Now(), done: make(chan struct{})}
	g.nudge()
	return g.request.done
}

// Withdraw ends the request.
func (g *Gate) Withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropRequest()
}

// dropRequest takes the request away, with the lock.
func (g *Gate) dropRequest() {
	if g.request != nil {
		g.waited.Add(int64(time.Since(g.request.since)))
		g.request = nil
	}
}

func (g *Gate) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Waited is for how long transactions have waited in all.
func (g *Gate) Waited() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := time.Duration(g.waited.Load())
	if g.request != nil {
		d += time.Since(g.request.since)
	}
	return d
}

// Run asks the server for as long as something waits, until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	defer g.hangUp()
	pause := firstPause
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.wake:
			pause = firstPause
		case <-timer.C:
		}
		r, pid, look := g.present()
		if !look {
			continue // the next request, or the next stream, wakes it
		}
		again := g.queryStandbys(ctx, r, pid)
		switch {
		case ctx.Err() != nil:
			return nil
		case !again && r != nil:
			timer.Reset(failedPause)
		case !again, g.watch:
			timer.Reset(idleLook)
		default:
			timer.Reset(pause)
			pause = min(2*pause, maxPause)
		}
		g.report()
	}
}

// present is the request at hand, the stream's session, and whether there is a reason to ask.
func (g *Gate) present() (r *request, pid uint32, look bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.request, g.pid, g.request != nil || g.pid != 0 && (g.unseen || g.watch)
}

// queryStandbys asks once and reports whether there was an answer. r was at hand before, and is nil where nothing
// waits.
func (g *Gate) queryStandbys(ctx context.Context, r *request, pid uint32) bool {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	l, err := g.askServer(limited)
	if err != nil {
		g.hangUp()
		if ctx.Err() == nil {
			g.failed(pid, err)
		}
		return false
	}
	if l.HolderPID != pid || l.InRecovery {
		g.hangUp() // another server, or the stream is about to be replaced
		g.failed(pid, errElsewhere)
		return false
	}
	g.answered(l, r, pid)
	return true
}

func (g *Gate) failed(pid uint32, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid != pid {
		return
	}
	g.passed.Store(uint64(g.horizon.at)) // what is not known is not passed
	g.mode, g.unseen, g.trouble = waits, g.pid != 0, unanswered(err)
	g.doubt(err)
}

// answered takes an answer. What the stream has moved on from is dropped.
func (g *Gate) answered(l *Look, r *request, pid uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid != pid {
		return
	}
	g.unseen = false
	g.trust()
	if !l.MaySee && len(g.cfg.Names) > 0 {
		g.passed.Store(uint64(g.horizon.at))
		g.mode, g.trouble = waits, hidden(l.Role)
		return
	}
	for i := range l.Senders {
		if s := &l.Senders[i]; s.physical() {
			g.slots[strings.ToLower(s.Name)] = s.Slot
		}
	}
	v := g.cfg.judge(l, g.slots)
	g.horizon.see(l.inserted, v.flushed)
	g.enter(v)
	g.watch = g.mode != waits || l.Failover && len(l.Held()) > 0
	if g.mode == waits {
		g.passed.Store(uint64(g.horizon.at))
	} else {
		g.passed.Store(math.MaxUint64)
	}
	g.trouble = g.troubleOf(l, &v, r)
	if r == nil || r != g.request {
		return
	}
	if r.target == 0 {
		r.target = l.flushedTo
	}
	if v.flushed >= r.target || r.commit < g.horizon.at {
		close(r.done)
		g.dropRequest()
	}
}

// enter logs why transactions are no longer held back, and when they are again.
func (g *Gate) enter(v verdict) {
	next := waits
	switch {
	case v.nobody:
		next = nobody
	case v.flushed == unbounded:
		next = stepped
	}
	g.mode = next
	if next == g.logged || len(g.cfg.Names) == 0 {
		return
	}
	g.logged = next
	switch next {
	case waits:
		g.log.Info("transactions are published once the standbys have flushed them", g.names())
	case stepped:
		g.log.Info("the server holds the stream back for the standbys (synchronized_standby_slots), so the relay does "+
			"not wait for them as well", g.names())
	case nobody:
		g.log.Warn("synchronous_standby_names is empty, so transactions are published without waiting for a standby",
			g.names())
	}
}
