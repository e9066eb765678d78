package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespace is the prefix of every metric of this program.
const Namespace = "cdc_outbox"

// MaxTopics is how many different topics get a label value of their own; records of further topics count under
// OtherTopic. A topic comes from a row, so without a bound a bad producer could grow the label, and with it this
// process and the Prometheus that scrapes it, without limit.
const MaxTopics = 1000

// OtherTopic is the label value for topics beyond MaxTopics.
const OtherTopic = "other"

// Side is the value of the label side of reconnects_total.
type Side string

// The two sides of the connector.
const (
	Postgres Side = "postgres"
	Kafka    Side = "kafka"
)

// Metrics are the counters and gauges of the connector, all safe for concurrent use. The metrics of the replication
// slot (slot_*) belong to package slotmonitor, which registers them itself.
type Metrics struct {
	reg         prometheus.Registerer
	published   *prometheus.CounterVec
	failed      *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	changes     map[string]prometheus.Counter
	commitToAck prometheus.Histogram
	reconnects  map[Side]prometheus.Counter

	mu     sync.RWMutex
	topics map[string]prometheus.Counter // of published; its length bounds the label
}

// NewMetrics makes the metrics and registers them. It panics when reg has one of them already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reg: reg,
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Name: "events_published_total",
			Help: "Events acknowledged by Kafka, by topic.",
		}, []string{"topic"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Name: "events_failed_total",
			Help: "Events that could not be routed or were refused by Kafka, by topic and reason.",
		}, []string{"topic", "reason"}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: Namespace, Name: "dead_letters_total",
			Help: "Events sent to the dead-letter topic, by reason.",
		}, []string{"reason"}),
		commitToAck: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: Namespace, Name: "commit_to_ack_seconds",
			Help: "Time from a transaction's commit in Postgres to Kafka's acknowledgement of its last event.",
			// From half a millisecond to half an hour: milliseconds when all is well, minutes after an outage.
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}),
		changes:    map[string]prometheus.Counter{},
		reconnects: map[Side]prometheus.Counter{},
		topics:     map[string]prometheus.Counter{},
	}
	reconnects := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: Namespace, Name: "reconnects_total",
		Help: "Connections made again after one was lost, by side.",
	}, []string{"side"})
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: Namespace, Name: "outbox_changes_total",
		Help: "Changes of the outbox besides inserts that the publication sends and that are no events, by operation.",
	}, []string{"operation"})
	for _, operation := range []string{"update", "delete", "truncate"} {
		m.changes[operation] = changes.WithLabelValues(operation)
	}
	for _, side := range []Side{Postgres, Kafka} {
		// Present from the start: rate() over a counter that appears with its first increment misses that increment.
		m.reconnects[side] = reconnects.WithLabelValues(string(side))
	}
	reg.MustRegister(m.published, m.failed, m.deadLetters, m.commitToAck, reconnects, changes)
	return m
}

// Published counts n events of a topic that Kafka acknowledged.
func (m *Metrics) Published(topic string, n int) {
	m.mu.RLock()
	c, ok := m.topics[topic]
	m.mu.RUnlock()
	if !ok {
		c = m.published.WithLabelValues(m.admit(topic))
	}
	c.Add(float64(n))
}

// Failed counts an event that could not be published. The reason is one word of a closed list; topic is empty when the
// row did not even name one.
func (m *Metrics) Failed(topic, reason string) {
	m.failed.WithLabelValues(m.admit(topic), reason).Inc()
}

// MayFail makes the counters of events that fail before they have a topic. Without them the first failure would be a
// series that begins at 1, in which increase() sees nothing.
func (m *Metrics) MayFail(reason string) { m.failed.WithLabelValues("", reason) }

// DeadLettered counts an event sent to the dead-letter topic.
func (m *Metrics) DeadLettered(reason string) { m.deadLetters.WithLabelValues(reason).Inc() }

// MayDeadLetter makes the counter, for the same reason as MayFail.
func (m *Metrics) MayDeadLetter(reason string) { m.deadLetters.WithLabelValues(reason) }

// admit returns the label value for a topic: its own name while there is room.
func (m *Metrics) admit(topic string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.topics[topic]; ok || topic == "" {
		return topic
	}
	if len(m.topics) >= MaxTopics {
		return OtherTopic
	}
	m.topics[topic] = m.published.WithLabelValues(topic)
	return topic
}

// CommitToAck records that a transaction's last event was acknowledged d after its commit. The two ends are read from
// two clocks, so d may be negative; that counts as zero.
func (m *Metrics) CommitToAck(d time.Duration) {
	m.commitToAck.Observe(max(0, d.Seconds()))
}

// TracedCommitToAck is CommitToAck for a transaction of which an event is traced: the trace becomes the exemplar of the
// histogram's bucket, which leads from a slow bucket to one event that was slow (OpenMetrics, "Exemplars").
func (m *Metrics) TracedCommitToAck(d time.Duration, traceID, spanID string) {
	m.commitToAck.(prometheus.ExemplarObserver).ObserveWithExemplar(max(0, d.Seconds()),
		prometheus.Labels{"trace_id": traceID, "span_id": spanID})
}

// Changed counts an update, delete or truncate of the outbox.
func (m *Metrics) Changed(operation string) { m.changes[operation].Inc() }

// Reconnected counts a connection made again.
func (m *Metrics) Reconnected(side Side) {
	m.reconnects[side].Inc()
}

// WatchStandbys registers how long transactions have waited for physical standbys, which is read at each scrape. Call
// it once.
func (m *Metrics) WatchStandbys(waited func() time.Duration) {
	m.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: Namespace, Name: "standby_wait_seconds_total",
		Help: "Time in which transactions waited until the standbys of postgres.wait_for_standbys had flushed them.",
	}, func() float64 { return waited().Seconds() }))
}

// Gauges are read at each scrape, so they cost nothing while a row is relayed and are never stale. The functions
// are called from the HTTP server's goroutines.
type Gauges struct {
	ConfirmedLSN      func() uint64
	ReceivedLSN       func() uint64
	OldestUnconfirmed func() time.Duration // age of the oldest unconfirmed transaction with rows, 0 if there is none
	Window            func() (records int, bytes int64)
}

// Watch registers the gauges. Call it once.
func (m *Metrics) Watch(g Gauges) {
	gauge(m.reg, "confirmed_lsn", "Position up to which everything was acknowledged by Kafka and confirmed to the "+
		"slot, in bytes of WAL.",
		func() float64 { return float64(g.ConfirmedLSN()) })
	gauge(m.reg, "received_lsn", "Position up to which the stream was read, in bytes of WAL.",
		func() float64 { return float64(g.ReceivedLSN()) })
	gauge(m.reg, "oldest_unconfirmed_seconds",
		"Age of the oldest committed transaction with events that is not confirmed, 0 where there is none.",
		func() float64 { return max(0, g.OldestUnconfirmed().Seconds()) })
	gauge(m.reg, "window_records", helpWindowRecords, func() float64 { n, _ := g.Window(); return float64(n) })
	gauge(m.reg, "window_bytes", helpWindowBytes, func() float64 { _, n := g.Window(); return float64(n) })
}

// Both kinds of relay have these.
const (
	helpWindowRecords = "Records in flight: read from Postgres, not yet acknowledged by Kafka."
	helpWindowBytes   = "Bytes in flight: read from Postgres, not yet acknowledged by Kafka."
)

func gauge(reg prometheus.Registerer, name, help string, f func() float64) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: Namespace, Name: name, Help: help}, f))
}

// BuildInfo registers build_info, a constant 1 that carries the version.
func BuildInfo(reg prometheus.Registerer, version, revision, goVersion string) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: Namespace, Name: "build_info",
		Help:        "1, labelled with the version of the program.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goVersion},
	}, func() float64 { return 1 }))
}
