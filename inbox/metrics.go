package inbox

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count the outcomes of deliveries. Their label consumer is the name of a ledger (Options.Consumer), their
// label group a Kafka consumer group. A nil *Metrics counts nothing.
type Metrics struct {
	deliveries *prometheus.CounterVec
	repeats    *prometheus.CounterVec
	dead       *prometheus.CounterVec
	open       *prometheus.GaugeVec
	pruned     *prometheus.CounterVec
	prunedAt   *prometheus.GaugeVec
	consumer   consumerMetrics
}

// NewMetrics registers the metrics. Like MustRegister it panics if the registry already has them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_inbox_deliveries_total",
			Help: "Deliveries by result: claimed (and handled), duplicate, contended, failed.",
		}, []string{"consumer", "result"}),
		repeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_inbox_transaction_repeats_total",
			Help: "Transactions run again after a serialization failure or a deadlock.",
		}, []string{"consumer"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_inbox_dead_letters_total",
			Help: "Records written to a dead-letter topic.",
		}, []string{"group", "topic"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_inbox_open_dead_letters",
			Help: "Dead letters of the group that were neither published again nor dismissed, at most ten seconds ago.",
		}, []string{"group", "topic"}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_inbox_pruned_total",
			Help: "Rows of the ledger that Prune has deleted.",
		}, []string{"consumer"}),
		prunedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_inbox_pruned_timestamp_seconds",
			Help: "When Prune last finished, Unix time; absent if this process has not called it.",
		}, []string{"consumer"}),
	}
	r.MustRegister(m.deliveries, m.repeats, m.dead, m.open, m.pruned, m.prunedAt)
	m.consumer = newConsumerMetrics(r)
	return m
}

// expect creates a ledger's series with the value 0, because increase() and rate() do not see the increment with which
// a series begins.
func (m *Metrics) expect(consumer string) {
	if m == nil {
		return
	}
	for _, result := range []string{"claimed", "duplicate", "contended", "failed"} {
		m.deliveries.WithLabelValues(consumer, result)
	}
	m.repeats.WithLabelValues(consumer)
	m.pruned.WithLabelValues(consumer)
}

// Expect does the same for the topics of a consumer group. Package inbox/consumer calls it.
func (m *Metrics) Expect(group string, topics ...string) {
	if m == nil {
		return
	}
	for _, topic := range topics {
		m.dead.WithLabelValues(group, topic)
	}
}

func (m *Metrics) prune(consumer string, rows int64, done bool) {
	if m == nil {
		return
	}
	m.pruned.WithLabelValues(consumer).Add(float64(rows))
	if done {
		m.prunedAt.WithLabelValues(consumer).SetToCurrentTime()
	}
}

// countBatch counts the deliveries of a batch: of an error only one, because it is not known whose it is.
func (m *Metrics) countBatch(consumer string, fresh, before int, err error) {
	if m == nil {
		return
	}
	if err != nil && !errors.Is(err, ErrDuplicate) {
		m.count(consumer, err)
		return
	}
	m.deliveries.WithLabelValues(consumer, "claimed").Add(float64(fresh))
	m.deliveries.WithLabelValues(consumer, "duplicate").Add(float64(before))
}

func (m *Metrics) count(consumer string, err error) {
	if m == nil {
		return
	}
	result := "failed"
	switch {
	case err == nil:
		result = "claimed"
	case errors.Is(err, ErrDuplicate):
		result = "duplicate"
	case errors.Is(err, ErrContended):
		result = "contended"
	}
	m.deliveries.WithLabelValues(consumer, result).Inc()
}

func (m *Metrics) repeated(consumer string) {
	if m != nil {
		m.repeats.WithLabelValues(consumer).Inc()
	}
}

// Dead counts a dead letter. Package inbox/consumer calls it.
func (m *Metrics) Dead(group, topic string) {
	if m != nil {
		m.dead.WithLabelValues(group, topic).Inc()
	}
}

// OpenLetters is how many dead letters of the topic's records are open. Package inbox/consumer calls it.
func (m *Metrics) OpenLetters(group, topic string, letters int) {
	if m != nil {
		m.open.WithLabelValues(group, topic).Set(float64(letters))
	}
}

type observerKey struct{}

// Observe returns a context with which Handle and Forward call used. Package inbox/consumer calls it: it remembers the
// events that no ledger does.
func Observe(ctx context.Context, used func()) context.Context {
	return context.WithValue(ctx, observerKey{}, used)
}

func observed(ctx context.Context) {
	if used, ok := ctx.Value(observerKey{}).(func()); ok {
		used()
	}
}
