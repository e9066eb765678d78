package kafka

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// metrics are the producer's own series. Labels are bounded: error names come from the table in codes.go.
type metrics struct {
	requestSeconds  prometheus.Histogram
	batchBytes      prometheus.Histogram
	recordsPerBatch prometheus.Histogram
	inFlight        prometheus.Gauge
	retries         *prometheus.CounterVec
	rewinds         prometheus.Counter
	epochBumps      prometheus.Counter
	splits          prometheus.Counter
	throttled       prometheus.Counter
	fenced          prometheus.Counter

	transactions       *prometheus.CounterVec
	transactionSeconds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_fenced_total",
			Help: "Times another instance of the slot took over, and Kafka took no more records from this one.",
		}),
		requestSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cdc_outbox_producer_request_seconds",
			Help:    "Time from the send of a Produce request to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
		batchBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cdc_outbox_producer_batch_bytes",
			Help:    "Size of the record batches as sent, after compression.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 7),
		}),
		recordsPerBatch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cdc_outbox_producer_records_per_batch",
			Help:    "Records in each record batch.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cdc_outbox_producer_requests_in_flight",
			Help: "Produce requests that wait for their answer.",
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_retries_total",
			Help: "Batches that were not acknowledged and are sent again, by the broker's error.",
		}, []string{"error"}),
		rewinds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_rewinds_total",
			Help: "Times a partition was drained and its unacknowledged batches were put back in front of the queue.",
		}),
		epochBumps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_epoch_bumps_total",
			Help: "Times the sequences were started over with a new epoch or producer id. " +
				"Each may have repeated records.",
		}),
		splits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_splits_total",
			Help: "Batches sent in halves because the topic does not take their size.",
		}),
		throttled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_throttle_seconds_total",
			Help: "Time that brokers asked not to send, because a quota was exceeded.",
		}),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cdc_outbox_producer_transactions_total",
			Help: "Kafka transactions that ended, by result: committed, or aborted and sent again.",
		}, []string{"result"}),
		transactionSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cdc_outbox_producer_transaction_seconds",
			Help:    "Time from a Kafka transaction's first record to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 16),
		}),
	}
	if r != nil {
		r.MustRegister(m.requestSeconds, m.batchBytes, m.recordsPerBatch, m.inFlight, m.retries, m.rewinds,
			m.epochBumps, m.splits, m.throttled, m.fenced, m.transactions, m.transactionSeconds)
	}
	return m
}

// expect makes the series of each error that a batch can be sent again for, because increase() and rate() do not see
// the increment with which a series begins. Only a code that the table does not have yet begins with its first.
func (m *metrics) expect() {
	for _, v := range wire.Verdicts {
		if v.Action != wire.Done {
			m.retries.WithLabelValues(v.Name)
		}
	}
	m.retries.WithLabelValues(wire.VerdictOf(-1).Name)
	m.retries.WithLabelValues(connectionLost.Name)
}

// expectTransactions does the same for a producer that has transactions.
func (m *metrics) expectTransactions() {
	for _, result := range []string{"committed", "aborted"} {
		m.transactions.WithLabelValues(result)
	}
}
