package inbox

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what becomes of deliveries. A nil *Metrics counts nothing.
type Metrics struct {
	deliveries *prometheus.CounterVec
	repeats    *prometheus.CounterVec
	dead       *prometheus.CounterVec
}

// NewMetrics registers the series, once per registry, or panics as MustRegister does.
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
			Help: "Records put aside on a dead-letter topic.",
		}, []string{"consumer", "topic"}),
	}
	r.MustRegister(m.deliveries, m.repeats, m.dead)
	return m
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

// Dead counts a record that was put aside; package inbox/consumer calls it.
func (m *Metrics) Dead(consumer, topic string) {
	if m != nil {
		m.dead.WithLabelValues(consumer, topic).Inc()
	}
}

// Duplicate counts a delivery that was recognised without the ledger; package inbox/consumer calls it.
func (m *Metrics) Duplicate(consumer string) {
	m.count(consumer, ErrDuplicate)
}
