package schemaregistry

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// patience bounds one request.
	patience = 10 * time.Second
	// The pauses after requests that failed double.
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
	// absentFor is how long it is taken as given that a registry does not know a schema. It is shorter than the time
	// after which a halted row is tried again.
	absentFor = 3 * time.Second
	// maxKnown bounds the schemas in memory: rows may name any number.
	maxKnown = 10_000
	// maxKnownTexts bounds the texts of the schemas in memory, in bytes.
	maxKnownTexts = 32 << 20
)

// Config configures a Registry.
type Config struct {
	Client  Client
	Refresh time.Duration // between two questions for the latest version of a subject; default 1 min
	Store   Store         // keeps schemas across restarts; nil: none
	Encode  string        // AVRO, JSON, PROTOBUF: the type of schemas that payloads are encoded by; empty: none are
	Logger  *zap.Logger   // nil: nothing is logged
}

// Registry has the ids of schemas. It implements router.Schemas, and is safe for concurrent use.
type Registry struct {
	cfg Config
	log *zap.Logger

	mu       sync.RWMutex
	known    map[router.UnresolvedSchema]fact
	texts    int                                   // bytes of the schemas in known
	asked    map[router.UnresolvedSchema]*question // that rows wait for
	err      *Error                                // of the last request; nil: it was answered
	failed   time.Time                             // when the first of the failed requests failed
	failures int
	nextAt   time.Time // no request before

	loaded chan struct{} // closed when Store was read
	dirty  chan struct{} // capacity 1: there are ids that Store does not have
}

// fact is what is known of a schema.
type fact struct {
	answer
	until    time.Time // of an absence: when it is no longer taken as given
	compiled *compiled // of the schema with this id; nil: payloads are not encoded
	refused  string    // why a newer version is not used
}

// question is a schema that rows wait for.
type question struct {
	since, last time.Time     // first and last asked for
	waiting     int           // callers
	flying      chan struct{} // closed when the request under way has ended; nil: none is

	err      *Error    // of the schema itself; nil: it is not known whether it can be used
	failures int       // that led to err
	nextAt   time.Time // no request before
}

// New returns a Registry that knows nothing, and asks when it is asked.
func New(cfg Config) *Registry {
	cfg.Refresh = cmp.Or(cfg.Refresh, time.Minute)
	g := &Registry{
		cfg: cfg, log: cfg.Logger, known: map[router.UnresolvedSchema]fact{},
		asked: map[router.UnresolvedSchema]*question{}, loaded: make(chan struct{}), dirty: make(chan struct{}, 1),
	}
	if g.log == nil {
		g.log = zap.NewNop()
	}
	if cfg.Store == nil {
		close(g.loaded)
	}
	return g
}

// Schema implements router.Schemas.
func (g *Registry) Schema(subject []byte, version router.SchemaVersion) (router.Schema, router.SchemaAnswer) {
	g.mu.RLock()
	f := g.known[router.UnresolvedSchema{Subject: string(subject), Version: version}]
	g.mu.RUnlock()
	if !f.until.IsZero() && !time.Now().Before(f.until) {
		return router.Schema{}, router.SchemaNotAsked
	}
	if f.compiled != nil {
		return router.Schema{ID: f.ID, Encoder: f.compiled.encoder}, f.State
	}
	return router.Schema{ID: f.ID}, f.State
}

// Resolve waits until it is known whether the registry has the schema. Its error is that of ctx: a registry that does
// not answer is asked again.
func (g *Registry) Resolve(ctx context.Context, need router.UnresolvedSchema) error {
	defer g.waitFor(need)()
	loaded := g.loaded
	for {
		flying, pause := g.begin(need)
		if flying == nil && pause == 0 {
			return nil
		}
		var again <-chan time.Time
		if flying == nil {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-loaded:
			loaded = nil
		case <-flying:
		case <-again:
		}
	}
}

// Ask is Resolve for a caller that does not wait for a registry that gives no answer. Its error is an *Error, or that
// of ctx.
func (g *Registry) Ask(ctx context.Context, need router.UnresolvedSchema) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := g.cfg.Client.lookup(limited, need)
	var c *compiled
	if err == nil && a.State == router.SchemaKnown && g.cfg.Encode != "" {
		c, err = g.compile(limited, need, a)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.note(need, fact{answer: a.answer, compiled: c}, err)
	return err
}

// waitFor notes a caller that waits for a schema, until the function that it returns is called.
func (g *Registry) waitFor(need router.UnresolvedSchema) (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	q := g.asked[need]
	if q == nil {
		for old, was := range g.asked {
			if was.waiting == 0 && was.flying == nil && now.Sub(was.last) > longestPause {
				delete(g.asked, old)
			}
		}
		q = &question{since: now}
		g.asked[need] = q
	}
	q.waiting++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		q.waiting--
		q.last = time.Now()
	}
}

// begin begins a request where one is due, and returns the request under way. Without one, it returns how long to wait
// before the next, 0 if the schema is known.
func (g *Registry) begin(need router.UnresolvedSchema) (flying <-chan struct{}, pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if f := g.known[need]; f.State != router.SchemaNotAsked && (f.until.IsZero() || now.Before(f.until)) {
		delete(g.asked, need)
		return nil, 0
	}
	q := g.asked[need]
	if q == nil { // another caller saw it known, and that is forgotten already
		q = &question{since: now, last: now}
		g.asked[need] = q
	}
	switch {
	case q.flying != nil:
		return q.flying, 0
	case now.Before(g.nextAt) || now.Before(q.nextAt):
		return nil, max(g.nextAt.Sub(now), q.nextAt.Sub(now))
	}
	over := make(chan struct{})
	q.flying = over
	go func() {
		defer close(over)
		_ = g.Ask(context.Background(), need) // it is noted
		g.mu.Lock()
		q.flying = nil
		g.mu.Unlock()
	}()
	return over, 0
}

// note keeps an answer, or a failure.
func (g *Registry) note(need router.UnresolvedSchema, f fact, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	var e *Error
	q := g.asked[need]
	if errors.As(err, &e) && !e.Schema {
		if q != nil {
			q.err = nil
		}
		if g.err == nil {
			g.failed = now
		}
		if g.err == nil || g.err.Error() != e.Error() {
			g.log.Warn("schema registry gives no answer; schemas that are known stay in use, and it is asked again",
				telemetry.ErrorFields(e.Fault())...)
		}
		g.err, g.failures, g.nextAt = e, g.failures+1, now.Add(pauseAfter(g.failures))
		return
	}
	if g.err != nil {
		g.log.Info("schema registry answers again", zap.Duration(logkey.Lasted, now.Sub(g.failed)))
	}
	g.err, g.failures, g.nextAt = nil, 0, time.Time{}
	if e != nil {
		g.refuse(need, q, e, now)
		return
	}
	g.keep(need, f, now)
}

// pauseAfter is the time before the next request, half of it by chance.
func pauseAfter(failures int) time.Duration {
	pause := min(firstPause<<min(failures, 10), longestPause)
	return pause/2 + rand.N(pause/2+1)
}

// refuse notes a schema that cannot be used. One that was known stays in use. g.mu is held.
func (g *Registry) refuse(need router.UnresolvedSchema, q *question, e *Error, now time.Time) {
	said := ""
	f, known := g.known[need]
	if known {
		said, f.refused = f.refused, e.Error()
		g.known[need] = f
	}
	if q != nil {
		if q.err != nil {
			said = q.err.Error()
		}
		q.err, q.failures, q.nextAt = e, q.failures+1, now.Add(pauseAfter(q.failures))
	}
	if said != e.Error() {
		g.log.Warn("schema cannot be used; rows that need it wait, and a version that is known stays in use",
			telemetry.ErrorFields(e.Fault())...)
	}
}

// keep takes an answer over. A schema that was known stays known: a payload was encoded with it, and the registry's
// other clients have its id as well. g.mu is held.
func (g *Registry) keep(need router.UnresolvedSchema, f fact, now time.Time) {
	was := g.known[need]
	switch {
	case f.State == router.SchemaKnown && was.answer == f.answer && was.compiled == f.compiled && was.refused == "":
		return
	case f.State == router.SchemaKnown && was.answer == f.answer:
	case f.State == router.SchemaKnown:
		g.log.Info("schema has an id", zap.String(logkey.Object, need.Subject+", version "+need.Version.String()),
			zap.Int32(logkey.SchemaID, f.ID))
	case was.State == router.SchemaKnown:
		return
	default:
		f.until = now.Add(absentFor)
	}
	g.put(need, f)
	if f.State == router.SchemaKnown {
		select {
		case g.dirty <- struct{}{}:
		default:
		}
	}
}

func (g *Registry) put(need router.UnresolvedSchema, f fact) {
	g.texts += f.size() - g.known[need].size()
	delete(g.known, need)
	for any, other := range g.known {
		if len(g.known) < maxKnown && g.texts <= maxKnownTexts {
			break
		}
		g.texts -= other.size()
		delete(g.known, any)
	}
	g.known[need] = f
}

// size is the length of the schema with all that it refers to, in bytes.
func (f fact) size() int {
	if f.compiled == nil {
		return 0
	}
	n := len(f.compiled.source.Text)
	for _, r := range f.compiled.source.References {
		n += len(r.Text)
	}
	return n
}
