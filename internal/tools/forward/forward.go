package forward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// Options of a Forwarder.
type Options struct {
	URL         *url.URL          // to which each record is posted. Required.
	Timeout     time.Duration     // of one call. Required.
	AtMostOnce  bool              // at most one call for an event instead of at least one
	Prefix      string            // of the names of the headers about the record
	ContentType string            // of a record that has no such header
	Headers     []Header          // for every request
	Pass        []string          // names of record headers that are passed on
	Client      http.RoundTripper // nil: http.DefaultTransport, with the proxies of the environment

	Ledger   inbox.Options
	Consumer consumer.Options // Metrics is set by New
}

// Forwarder reads topics and makes a call for each record.
type Forwarder struct {
	consumer *consumer.Consumer
}

type forwarder struct {
	opts    Options
	client  *http.Client
	metrics *Metrics
}

// New checks the options. It does not connect. The caller keeps the pool open until Run has returned.
func New(o Options, pool *pgxpool.Pool, registry prometheus.Registerer) (*Forwarder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	known := inbox.NewMetrics(registry)
	o.Ledger.Metrics, o.Consumer.Metrics = known, known
	in, err := inbox.New(pool, o.Ledger)
	if err != nil {
		return nil, err
	}
	f := &forwarder{opts: o, metrics: NewMetrics(registry), client: &http.Client{
		Transport: o.Client,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
	handle := f.again(in)
	if o.AtMostOnce {
		handle = consumer.Forward(in, o.Timeout, f.call)
	}
	c, err := consumer.New(o.Consumer, f.obeying(handle))
	if err != nil {
		return nil, err
	}
	return &Forwarder{c}, nil
}

func (o *Options) check() error {
	for _, h := range o.Headers {
		if o.reserved(h.Name) {
			return fmt.Errorf("the header %s is set by this program", h.Name)
		}
	}
	for _, name := range o.Pass { // a record must not set them either
		if !httpguts.ValidHeaderFieldName(name) || o.reserved(name) {
			return fmt.Errorf("the header %q cannot be passed on", name)
		}
	}
	if o.URL == nil || o.URL.Host == "" || o.URL.Scheme != "http" && o.URL.Scheme != "https" {
		return errors.New("the address is not an http or https URL")
	}
	if o.Timeout <= 0 {
		return errors.New("the timeout of a call must be above zero")
	}
	return nil
}

// again handles a record with the call inside the transaction of its claim. A call that succeeded and was not recorded
// is made again, so it counts as an attempt, whatever the cause.
func (f *forwarder) again(in *inbox.Inbox) consumer.Handler {
	return func(ctx context.Context, m consumer.Message) error {
		var called error
		made := false
		err := in.Handle(ctx, m.Event(), func(ctx context.Context, _ pgx.Tx) error {
			called, made = f.call(ctx, m), true
			return called
		})
		switch {
		case called != nil:
			return called
		case made && err != nil:
			return fmt.Errorf("the call succeeded, but the ledger did not record it: %s", err.Error())
		}
		return err
	}
}

// obeying waits as long as the endpoint has asked for. The ledger's transaction has ended by then.
func (f *forwarder) obeying(handle consumer.Handler) consumer.Handler {
	return func(ctx context.Context, m consumer.Message) error {
		err := handle(ctx, m)
		var answer *answerError
		if errors.As(err, &answer) && answer.pause > 0 && judge(answer.status) != refused {
			pause := time.NewTimer(answer.pause)
			defer pause.Stop()
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		return err
	}
}

// Run forwards until ctx ends. See consumer.Consumer.Run.
func (f *Forwarder) Run(ctx context.Context) error { return f.consumer.Run(ctx) }

// Ready returns nil while records are forwarded or none wait.
func (f *Forwarder) Ready() error { return f.consumer.Ready() }

// Status is the consumer's state and progress.
func (f *Forwarder) Status() consumer.Status { return f.consumer.Status() }

// CheckLedger reads nothing from the ledger's table, so an error says that it cannot be read.
func CheckLedger(ctx context.Context, pool *pgxpool.Pool, o inbox.Options) error {
	name := pgx.Identifier{o.Table}
	if o.Schema != "" {
		name = pgx.Identifier{o.Schema, o.Table}
	}
	_, err := pool.Exec(ctx, "SELECT FROM "+name.Sanitize()+" LIMIT 0")
	return err
}

// CreateLedger creates the ledger's table if it is missing.
func CreateLedger(ctx context.Context, pool *pgxpool.Pool, o inbox.Options) error {
	ddl, err := inbox.Schema(o)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, ddl)
	return err
}
