// Package simulation runs the real connector, stream, checkpoint and producer in virtual time, against stand-ins for
// PostgreSQL and Kafka. A seed decides what is committed and what goes wrong, and an oracle judges the promises.
package simulation

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/broker"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

const (
	postgresAddress = "10.0.0.1:5432"
	systemID        = "7300000000000000001"
	slotName        = "cdc_outbox"
	tableName       = "cdc_outbox_memory"
	standbyName     = "standby1"
)

// world is a run: servers, instances, what was committed, and what was found wrong.
type world struct {
	plan      *Plan
	began     time.Time
	net       *network.Network
	postgres  *walsender.Server
	kafka     *broker.Cluster
	instances []*instance

	mu        sync.Mutex
	serial    int
	perKey    map[string]int
	arrived   map[string][]*broker.Record // by event id
	problems  []string
	snapshots []snapshot
	restored  bool
	promoted  bool
	lost      []string    // events that the promoted server does not have
	trouble   broker.Fate // of the moment, for every nth request
	every     uint64
	ends      sync.WaitGroup // of faults that last
	trace     []string
	tracing   bool
	verbose   bool // the trace shows every delivery
	digest    uint64
}

type snapshot struct {
	at    time.Time
	state walsender.State
}

// topics and their partitions.
var topics = map[string]int32{"order.events": 3, "bill.events": 1}

func newWorld(p *Plan, tracing bool) *world {
	w := &world{
		plan: p, began: time.Now(), net: network.New(p.Seed), tracing: tracing,
		perKey: map[string]int{}, arrived: map[string][]*broker.Record{},
	}
	cfg := walsender.Config{
		SystemID: systemID, Database: "shop", Publication: "cdc_outbox", Slot: slotName, Table: tableName,
		Version: p.Version, SenderTimeout: time.Minute, RowTime: time.Millisecond, Polled: p.Polling > 0,
	}
	if p.Lag > 0 {
		cfg.Standby, cfg.Lag, cfg.SyncNames = standbyName, p.Lag, standbyName
	}
	w.postgres = walsender.New(cfg)
	w.net.Listen(postgresAddress, w.postgres.Serve)
	w.kafka = broker.New(broker.Config{
		Brokers: p.Brokers, Topics: topics, MarkerTime: 3 * time.Millisecond, Kafka4: p.Kafka4,
		OffsetTime: p.OffsetTime,
	}, w.net)
	w.postgres.Confirmed, w.postgres.Marked = w.confirmed, w.marked
	w.kafka.Appended = w.appended
	w.kafka.Fate = w.fate
	w.net.Observe = w.observe
	w.postgres.Said, w.kafka.Said = w.say, w.say
	for i := range p.Instances {
		w.instances = append(w.instances, &instance{w: w, name: string(rune('a' + i))})
	}
	return w
}

// say adds a line to the trace.
func (w *world) say(format string, args ...any) {
	if !w.tracing {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%10.6f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// observe mixes each delivery into the digest of the run.
func (w *world) observe(from, to string, conn uint64, bytes []byte) {
	h := fnv.New64a()
	_, _ = h.Write(bytes)
	sum := network.Mix(h.Sum64() ^ conn<<32 ^ uint64(len(from))<<16 ^ uint64(time.Since(w.began)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digest = network.Mix(w.digest ^ sum)
	if w.tracing && w.verbose {
		w.trace = append(w.trace, fmt.Sprintf("%10.6f %s to %s by %d: %d bytes %016x",
			time.Since(w.began).Seconds(), from, to, conn, len(bytes), h.Sum64()))
	}
}

func (w *world) wrong(promise, format string, args ...any) {
	text := promise + ": " + fmt.Sprintf(format, args...)
	w.say("WRONG %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.problems {
		if known[:1] == promise[:1] { // one of a kind is enough
			return
		}
	}
	w.problems = append(w.problems, fmt.Sprintf("%s (at %s)", text, time.Since(w.began)))
}

// Result is what a run found.
type Result struct {
	Problems []string
	Trace    []string
	Digest   uint64
	Events   int
	Virtual  time.Duration
}

// Failed reports whether a promise was broken.
func (r *Result) Failed() bool { return len(r.Problems) > 0 }

func (r *Result) String() string { return strings.Join(r.Problems, "\n") }

// Run takes a plan through, in the bubble of the caller.
func Run(p *Plan, tracing bool) *Result {
	w := newWorld(p, tracing)
	w.beginAccount() // with the slot, so every copy of the server's disk has it
	w.keepSnapshots()
	w.copySlot()
	for _, in := range w.instances {
		in.start()
	}
	for _, s := range p.Steps {
		time.Sleep(time.Until(w.began.Add(s.At)))
		w.say("STEP %s", s)
		w.applyStep(s)
	}
	w.ends.Wait()
	w.settle()
	w.finish()
	w.judge()
	virtual := time.Since(w.began)
	w.net.Close()
	time.Sleep(time.Minute) // no time passes in a bubble whose first goroutine has ended
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Result{Problems: w.problems, Trace: w.trace, Digest: w.digest, Events: w.serial, Virtual: virtual}
}

// patience is how long after the last fault everything has to have arrived.
const patience = 150 * time.Second

// settle waits until everything that is committed is in Kafka and the slot is held.
func (w *world) settle() {
	until := time.Now().Add(patience)
	for {
		w.putRight() // an instance may end only now because of what was hidden
		missing := w.missing()
		switch {
		case len(missing) == 0 && w.settled() && w.accountStands():
			time.Sleep(2 * time.Second) // repeats would show now
			return
		case w.stopped():
			return
		case time.Now().After(until) && len(missing) == 0 && w.settled():
			return // the account is judged later
		case time.Now().After(until):
			w.wrong("L", "%s after the last fault %d events have not arrived, the first is %v; %s", patience,
				len(missing), first(missing), w.unsettled())
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// settled reports whether the server knows that everything is published.
func (w *world) settled() bool {
	if w.plan.Polling > 0 {
		return w.postgres.Unmarked() == 0
	}
	return w.postgres.Holder() != 0 && !w.lags()
}

func (w *world) unsettled() string {
	if w.plan.Polling > 0 {
		return fmt.Sprintf("%d rows are not marked", w.postgres.Unmarked())
	}
	return fmt.Sprintf("the slot is held by %d, and lags: %v", w.postgres.Holder(), w.lags())
}

func first(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return ids[0]
}

// stopped: every instance has ended with exit code 3, for a cause that the plan holds.
func (w *world) stopped() bool {
	for _, in := range w.instances {
		if in.halted() == nil {
			return false
		}
	}
	return true
}

// finish stops the instances and waits for them.
func (w *world) finish() {
	for _, in := range w.instances {
		in.stop()
	}
	for _, in := range w.instances {
		in.wait()
	}
}
