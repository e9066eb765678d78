package inbox

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count the outcomes of deliveries. A nil *Metrics counts nothing.
type Metrics struct {
	deliveries *prometheus.CounterVec
	repeats    *prometheus.CounterVec
	dead       *prometheus.CounterVec
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
		}, []string{"consumer", "topic"}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_inbox_pruned_total",
			Help: "Rows of the ledger that Prune has deleted.",
		}, []string{"consumer"}),
		prunedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_inbox_pruned_timestamp_seconds",
			Help: "When Prune last finished, Unix time; absent if this process has not called it.",
		}, []string{"consumer"}),
	}
	r.MustRegister(m.deliveries, m.repeats, m.dead, m.pruned, m.prunedAt)
	m.consumer = newConsumerMetrics(r)
	return m
}

// Expect creates the series with the value 0, because increase() and rate() do not see the increment with which a
// series begins. New and consumer.New call it.
func (m *Metrics) Expect(consumer string, topics ...string) {
	if m == nil {
		return
	}
	for _, result := range []string{"claimed", "duplicate", "contended", "failed"} {
		m.deliveries.WithLabelValues(consumer, result)
	}
	m.repeats.WithLabelValues(consumer)
	for _, topic := range topics {
		m.dead.WithLabelValues(consumer, topic)
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
func (m *Metrics) Dead(consumer, topic string) {
	if m != nil {
		m.dead.WithLabelValues(consumer, topic).Inc()
	}
}

// Duplicate counts a delivery that was recognized without the ledger. Package inbox/consumer calls it.
func (m *Metrics) Duplicate(consumer string) {
	m.count(consumer, ErrDuplicate)
}
