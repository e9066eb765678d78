package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

const (
	// requestTimeout bounds one attempt, from the connection to the answer.
	requestTimeout = 10 * time.Second
	// lastWords is how long waiting events may delay the end of the process.
	lastWords = 3 * time.Second
	// capacity bounds the alerts that wait; each counts once, however often it changes.
	capacity = 1000
	// refresh is how often Alertmanager gets the firing alerts: it considers an alert that is not repeated resolved.
	// Its clients, Prometheus before all, do the same.
	refresh = time.Minute
)

// Config of a Sender.
type Config struct {
	URL    func() (string, error) // read again for each request
	Format string                 // one of Formats

	Runbook Runbook // required; asked when a message is written

	Logger *zap.Logger

	Registerer prometheus.Registerer // default: no metrics
}

// Sender delivers events, one request at a time.
type Sender struct {
	cfg    Config
	format format
	client poster
	sent   map[string]prometheus.Counter

	mu      sync.Mutex
	pending []waiting           // in the order in which they began to wait; one per alert and slot
	firing  map[key]alert.Event // the alerts that have begun and are not over
	seq     uint64
	told    bool // that the queue is full

	wake chan struct{} // one slot
}

type key struct{ alert, subject string }

type waiting struct {
	alert.Event
	seq uint64
}

func (w waiting) key() key { return key{w.Alert, w.Subject} }

// New makes a Sender. It connects to nothing before Run. The format must be one of Formats.
func New(cfg Config) *Sender {
	s := &Sender{
		cfg: cfg, format: formats[cfg.Format], client: newClient(), firing: map[key]alert.Event{},
		wake: make(chan struct{}, 1),
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "cdc_outbox", Name: "webhook_requests_total", Help: "Requests to monitor.webhook, by result.",
	}, []string{"result"})
	s.sent = map[string]prometheus.Counter{}
	for _, result := range []string{"sent", "failed", "refused"} {
		s.sent[result] = requests.WithLabelValues(result)
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(requests)
	}
	return s
}

// Send takes an event for delivery. It never blocks. The end of an alert is not sent if this process did not send its
// beginning.
func (s *Sender) Send(e alert.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{e.Alert, e.Subject}
	_, begun := s.firing[k]
	switch {
	case e.State == alert.Firing:
		s.firing[k] = e
	case begun:
		delete(s.firing, k)
	case s.format.people:
		return
	}
	s.seq++
	w := waiting{e, s.seq}
	for i, before := range s.pending {
		if before.key() == k {
			// The receiver still believes the state before the alert that never reached it.
			w.Before, w.Repeated = before.Before, w.Repeated && before.Repeated
			s.pending[i] = w
			return // it is awake, or waits for its next attempt
		}
	}
	if len(s.pending) >= capacity {
		if !s.told {
			s.told = true
			s.cfg.Logger.Error("too many alerts wait for the webhook; further ones are not sent",
				zap.Int(logkey.Waiting, capacity))
		}
		return
	}
	s.pending = append(s.pending, w)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run delivers until ctx ends, and then the waiting events, if it can within three seconds. It returns nil.
func (s *Sender) Run(ctx context.Context) error {
	defer s.client.close()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	again := time.NewTicker(refresh)
	defer again.Stop()
	failing := false
	for ctx.Err() == nil {
		batch, ok := s.next(false)
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.wake:
			case <-again.C:
				if batch, ok = s.next(true); ok {
					_ = s.deliver(ctx, batch) // the next one comes in a minute
				}
			}
			continue
		}
		err := s.deliver(ctx, batch)
		switch {
		case err == nil:
			if failing {
				s.cfg.Logger.Info("the webhook takes alerts again")
			}
			failing = false
			wait.Reset()
			continue
		case ctx.Err() != nil:
			continue
		case !failing:
			failing = true
			s.cfg.Logger.Warn("cannot deliver an alert to the webhook, trying again",
				zap.String(logkey.Alert, batch[0].Alert), zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
	s.flush(ctx)
	return nil
}

// flush gives everything that waits one more attempt.
func (s *Sender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	for {
		batch, ok := s.next(false)
		if !ok {
			return
		}
		if err := s.deliver(ctx, batch); err != nil {
			s.cfg.Logger.Warn("alerts were not delivered to the webhook before the end", zap.Error(err))
			return
		}
	}
}

// next returns the events of the next request: the oldest event, or for a receiver that takes several all of them and,
// because it forgets, all that fires. With refreshing, also when nothing waits.
func (s *Sender) next(refreshing bool) ([]waiting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.format.batches {
		if len(s.pending) == 0 {
			return nil, false
		}
		return []waiting{s.pending[0]}, true
	}
	if len(s.pending) == 0 && !refreshing {
		return nil, false
	}
	batch := append([]waiting(nil), s.pending...)
	waits := map[key]bool{}
	for _, w := range batch {
		waits[w.key()] = true
	}
	for k, e := range s.firing {
		if !waits[k] {
			e.Before = e.Level
			batch = append(batch, waiting{Event: e})
		}
	}
	return batch, len(batch) > 0
}

// deliver makes one attempt. A receiver that understood and says no will say no again, so that counts as delivered.
func (s *Sender) deliver(ctx context.Context, batch []waiting) error {
	events := make([]alert.Event, len(batch))
	for i, w := range batch {
		events[i] = w.Event
	}
	url, err := s.cfg.URL()
	if err == nil {
		err = s.client.post(ctx, s.format.url(url), s.format.body(events, time.Now(), s.cfg.Runbook))
	}
	var refused refusal
	switch {
	case errors.As(err, &refused):
		s.sent["refused"].Inc()
		s.cfg.Logger.Error("the webhook refuses an alert; it is not sent again",
			zap.String(logkey.Alert, batch[0].Alert), zap.Error(refused))
	case err != nil:
		s.sent["failed"].Inc()
		return err
	default:
		s.sent["sent"].Inc()
	}
	s.done(batch)
	return nil
}

// done forgets the delivered events, unless they have changed meanwhile.
func (s *Sender) done(batch []waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delivered := map[key]waiting{}
	for _, w := range batch {
		delivered[w.key()] = w
	}
	left := s.pending[:0]
	for _, w := range s.pending {
		was, ok := delivered[w.key()]
		if ok && was.seq == w.seq {
			continue
		}
		if ok { // the level that the receiver knows now
			w.Before = alert.OK
			if was.State == alert.Firing {
				w.Before = was.Level
			}
		}
		left = append(left, w)
	}
	clear(s.pending[len(left):])
	s.pending, s.told = left, false
}
