package forward

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count the calls. The outcomes of the records are in the metrics of package inbox.
type Metrics struct {
	calls *prometheus.HistogramVec
}

// NewMetrics registers the metrics. Like MustRegister it panics if the registry already has them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "cdc_outbox_forward_call_seconds",
		Help: "Calls by result: done (2xx), wait (the endpoint is away or wrongly configured), again (it failed, or " +
			"did not answer), refused (it will never take the record), not_sent (no connection).",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"result"})}
	r.MustRegister(m.calls)
	for _, v := range []string{string(done), string(wait), string(again), string(refused), "not_sent"} {
		m.calls.WithLabelValues(v)
	}
	return m
}

func (m *Metrics) observe(result string, began time.Time) {
	m.calls.WithLabelValues(result).Observe(time.Since(began).Seconds())
}
