package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// control is the state of the goroutine that asks: for a producer id, for metadata, for topic limits. It uses a
// connection of its own, to any broker, because on a produce connection its requests would queue after megabytes.
// Guarded by the producer's lock, except wire and turn, which belong to the goroutine.
type control struct {
	wake       chan struct{} // capacity 1
	timeout    time.Duration // of one request
	metaAt     time.Time     // when to ask for metadata next
	metaLast   time.Time
	allAt      time.Time // when all topics are asked for next
	everything bool      // they are asked for with the next request
	refresh    int       // calls of Refresh so far; an answer to an older request does not count
	refreshAt  time.Time // of the last of them
	idAt       time.Time // when to ask for a producer id next, if there is none
	failures   int
	fruitless  int              // metadata answers in a row that left something without a leader
	addrs      map[int32]string // of the brokers in the last answer
	createAt   time.Time        // no topic is created before
	// controller is the address to create topics at, empty while it is not known. Brokers with KRaft name any of
	// themselves, and pass the request on (KIP-590).
	controller string

	silentAt map[string]time.Time // by address

	wire *wire.Conn
	turn int

	interval time.Duration // of metadata requests while nothing is wrong
	pace     pace

	trouble trouble
}

// maxControlTimeout bounds the small requests. A broker that takes longer is stuck, and another one can be asked.
const maxControlTimeout = 5 * time.Second

func newControl(cfg *Config) control {
	return control{
		wake: make(chan struct{}, 1), silentAt: map[string]time.Time{},
		timeout: min(cfg.RequestTimeout, maxControlTimeout), interval: cfg.MetadataInterval, pace: cfg.pace,
	}
}

// wantMetadata asks for fresh metadata of all topics now, or as soon as the last answer is a moment old.
func (c *control) wantMetadata() {
	c.everything = true
	c.wantTopics()
}

// wantTopics asks for the topics that wait for metadata, in the same way.
func (c *control) wantTopics() {
	now := time.Now()
	at := now
	if next := c.metaLast.Add(c.pace.backoffMin); next.After(at) {
		at = next
	}
	if c.metaAt.After(at) || c.metaAt.IsZero() {
		c.metaAt = at
	} else if c.metaAt.After(now) {
		return
	}
	poke(c.wake) // also where it is due: while there was no topic, there was nothing to ask
}

// runControl does the next job when it is due, until ctx ends.
func (p *Producer) runControl(ctx context.Context) {
	c := &p.control
	defer func() {
		if c.wire != nil {
			_ = c.wire.Close()
		}
	}()
	for ctx.Err() == nil {
		p.mu.Lock()
		job, at := p.nextJob()
		p.mu.Unlock()
		if wait := time.Until(at); job == nil || wait > 0 {
			c.sleep(ctx, wait)
			continue
		}
		if err := p.do(ctx, job); err != nil && ctx.Err() == nil {
			p.jobFailed(err)
		}
	}
}

// nextJob returns the next job and its time; nil, a while from now, if there is none.
func (p *Producer) nextJob() (job func(*wire.Conn) error, at time.Time) {
	if !p.id.valid() && !p.own.fences() {
		job, at = p.initProducerID, p.control.idAt
	}
	if len(p.topics) > 0 && (job == nil || p.control.metaAt.Before(at)) {
		job, at = p.refreshMetadata, p.control.metaAt
	}
	if due := p.topics.creationDue(p.control.createAt); !due.IsZero() && (job == nil || due.Before(at)) {
		job, at = p.createMissing, due
	}
	if job == nil {
		at = later(p.control.interval)
	}
	return job, at
}

func (c *control) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.wake:
	case <-t.C:
	}
}

// do runs the job over the control connection, re-created where there is none. A kept connection may have been
// closed by the broker for idleness, so its failure is followed by a second try over a new one.
func (p *Producer) do(ctx context.Context, job func(*wire.Conn) error) error {
	c := &p.control
	for {
		kept := c.wire != nil
		if !kept {
			var err error
			if c.wire, err = p.dialAny(ctx, c.turn); err != nil {
				return err
			}
		}
		w := c.wire
		stop := context.AfterFunc(ctx, func() { _ = w.Close() })
		err := job(w)
		stop()
		if err == nil {
			p.mu.Lock()
			c.failures = 0
			c.trouble.resolve(&p.troubles)
			p.mu.Unlock()
			return nil
		}
		_ = w.Close()
		c.wire = nil
		c.turn++
		if !kept || ctx.Err() != nil {
			return err
		}
	}
}

// jobFailed tries again later.
func (p *Producer) jobFailed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.control
	delay := p.cfg.pace.delay(c.failures)
	c.failures++
	if !p.reportDial(&c.trouble, "brokers "+strings.Join(p.cfg.Brokers, ","), err).Passes() {
		c.failures = refusedAttempt
	}
	c.everything = true // maybe the answer to such a request was lost
	c.metaAt, c.idAt, c.createAt = later(delay), later(delay), later(delay)
}

// silentFor is how long a broker that gave no answer is asked only after all others. One that hangs takes connections
// and answers nothing, so each try costs the whole timeout.
const silentFor = 30 * time.Second

// silent notes that a broker gave no answer.
func (p *Producer) silent(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.control.silentAt[addr] = time.Now()
}

// dialAny connects to the first broker that answers: those known from metadata first, then the configured ones, and
// last the brokers that were silent a moment ago.
func (p *Producer) dialAny(ctx context.Context, turn int) (*wire.Conn, error) {
	p.mu.Lock()
	var known []string
	for _, b := range p.brokers {
		if b.trouble.Kind == "" {
			known = append(known, b.addr)
		}
	}
	slices.Sort(known)
	addrs := slices.Concat(known, p.cfg.Brokers)
	addrs = slices.Concat(addrs[turn%len(addrs):], addrs[:turn%len(addrs)])
	silent := map[string]bool{}
	for addr, at := range p.control.silentAt {
		silent[addr] = time.Since(at) < silentFor
	}
	p.mu.Unlock()
	slices.SortStableFunc(addrs, func(a, b string) int {
		switch {
		case silent[a] == silent[b]:
			return 0
		case silent[b]:
			return -1
		}
		return 1
	})
	var errs []error
	for _, addr := range addrs {
		w, err := wire.Dial(ctx, &p.cfg.Cluster, addr)
		if err == nil {
			return w, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		p.silent(addr)
		// as the system has it, beside the sentence
		p.log.Debug("broker not reachable", zap.String(logkey.Broker, addr), zap.Error(errors.Unwrap(err)))
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
