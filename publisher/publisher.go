package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/stay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
)

// Publisher is a polling relay. Make one with New, run it once. All methods may be called from any goroutine, before,
// while and after it runs.
type Publisher struct {
	config   *config.Loaded
	log      *zap.Logger
	register prometheus.Registerer // nil: none
	began    atomic.Bool
	now      atomic.Pointer[attempt]
	stay     *stay.Stay
	schemas  *schemaregistry.Registry // nil: none
}

// attempt is a relay with its metrics. It runs once; after an error that ended it there is another one.
type attempt struct {
	*polling.Relay
	registry *prometheus.Registry
	ran      bool
}

// New checks the options. It connects to nothing and starts no goroutine. Its error lists everything that is wrong with
// the options; trying again with the same ones does not help.
func New(o Options) (*Publisher, error) {
	c, err := o.load()
	if err != nil {
		return nil, err
	}
	log := o.logger()
	p := &Publisher{
		config: c, log: log, register: o.Registerer, stay: stay.New(stay.Config{On: true, Logger: log}),
	}
	if p.schemas, err = wiring.Schemas(c, log); err != nil {
		return nil, err
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.register == nil {
		return p, nil
	}
	if err := p.register.Register(metrics{p}); err != nil {
		return nil, fmt.Errorf("publisher: Options.Registerer has these metrics already; wrap it with "+
			"prometheus.WrapRegistererWith and a label for each Publisher: %w", err)
	}
	return p, nil
}

// next makes the relay of an attempt.
func (p *Publisher) next() error {
	registry := prometheus.NewRegistry()
	cfg, err := wiring.PollingRelay(p.config, p.log, registry, p.schemas)
	if err != nil {
		return err
	}
	r, err := polling.New(cfg)
	if err != nil {
		return err
	}
	p.now.Store(&attempt{Relay: r, registry: registry})
	return nil
}

// errTwice is for a caller that does not wait for Run.
var errTwice = errors.New("publisher: Run was called before; make another Publisher with New")

// Run publishes until ctx ends, then waits until the rows in flight are acknowledged and marked, and returns nil. An
// error that an operator has to fix does not end it: it is logged, Ready reports it, and Run checks again every few
// seconds. Run returns an error only when it was called before, or when trying again cannot help.
func (p *Publisher) Run(ctx context.Context) error {
	if p.began.Swap(true) {
		return errTwice
	}
	if p.register != nil {
		defer p.register.Unregister(metrics{p})
	}
	err := p.stay.Run(ctx, p.attempt)
	if err != nil && ctx.Err() != nil && fault.KindOf(err) != fault.Config {
		p.log.Error("stopped by an error while it was stopping; the next start sends the rest again",
			telemetry.ErrorFields(err)...)
		return nil
	}
	return err
}

// attempt runs one relay, and the goroutines beside it, to its end.
func (p *Publisher) attempt(ctx context.Context) error {
	if p.now.Load().ran {
		if err := p.next(); err != nil {
			return err
		}
	}
	a := p.now.Load()
	a.ran = true
	around, end := context.WithCancel(ctx)
	defer end()
	g, around := errgroup.WithContext(around)
	g.Go(func() error {
		return p.stay.Watch(around, func() bool {
			st := a.Status().State
			return stay.Works(st.Name) || st.Reason != ""
		})
	})
	g.Go(func() error {
		defer end()
		return p.decisions(a.Relay).Around(around, a.Known, a.Run)
	})
	return g.Wait()
}

// decisions applies the decisions of operators, from cdc-outbox row pass, pause and resume.
func (p *Publisher) decisions(r *polling.Relay) *decision.Watch {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	name := fmt.Sprintf("pid %d on %s", os.Getpid(), host)
	desk := wiring.Decisions(p.config)
	return &decision.Watch{
		Table: desk.Table, DSN: desk.DSN, Logger: p.log, Process: name, Relay: decision.Relay{
			Decide: r.Decide, Pause: r.Pause, View: func() decision.View {
				return decision.View{Holds: true, Halted: decision.Passable(r.Halted()), Process: name}
			},
		},
	}
}

// Kick says that rows were committed, so that they are published now and not when the table is queried next. It never
// blocks; kicks that come while one is pending are one. Nothing depends on it.
func (p *Publisher) Kick() { p.now.Load().Kick() }

// Ready returns nil while rows are published: Postgres answers, Kafka acknowledges, and no lane is halted. Otherwise
// the error says in one sentence why not.
func (p *Publisher) Ready() error {
	if ok, why := p.ready(); !ok {
		return errors.New(why)
	}
	return nil
}

func (p *Publisher) ready() (ok bool, why string) {
	if s := p.stay.Standing(); s != nil {
		return false, "waits for an operator: " + s.State.Reason
	}
	return p.now.Load().Ready()
}

// Handler serves /healthz, /readyz, /status and /metrics, as cdc-outbox run does. cdc-outbox status --url shows its
// answer. It only reads. Do not expose it to the internet.
func (p *Publisher) Handler() http.Handler {
	return telemetry.NewHandler(telemetry.Handlers{
		Ready: p.ready, Status: func() any { return p.status() },
		Metrics: prometheus.GathererFunc(p.gather),
	})
}

// SQL returns the statements of a migration for an empty database: the outbox table unless it is the service's own
// (table is false), the columns, index and trigger that polling needs, the tables of operators' decisions.
func (p *Publisher) SQL(table bool) (string, error) {
	s, err := wiring.PollingSetup(p.config, table)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, step := range polling.SetupScript(s) {
		fmt.Fprintf(&b, "-- %s\n%s\n\n", step.Why, strings.TrimSpace(step.SQL))
	}
	return b.String(), nil
}
