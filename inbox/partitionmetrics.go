package inbox

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// consumerMetrics tell how far a consumer group is. Their label group is the Kafka consumer group.
type consumerMetrics struct {
	lag, oldest, progress, held, assigned *prometheus.GaugeVec
	age                                   *prometheus.HistogramVec
}

func newConsumerMetrics(r prometheus.Registerer) consumerMetrics {
	partition := []string{"group", "topic", "partition"}
	m := consumerMetrics{
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_consumer_lag",
			Help: "Records of an assigned partition that are not handled yet, at most ten seconds ago.",
		}, partition),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_consumer_oldest_timestamp_seconds",
			Help: "Timestamp of the record that is being handled, the oldest of its partition, Unix time; 0: none.",
		}, partition),
		progress: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_consumer_progress_timestamp_seconds",
			Help: "When the last record of the partition was handled, or none waited, Unix time.",
		}, partition),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_consumer_held_keys",
			Help: "Keys whose events wait for an open dead letter; only with Options.HoldKeys.",
		}, partition),
		assigned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cdc_outbox_consumer_assigned_partitions",
			Help: "Partitions that the group has assigned to this process.",
		}, []string{"group", "topic"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cdc_outbox_consumer_event_age_seconds",
			Help: "Age of records, by their timestamps, when they were handled or dead-lettered.",
			Buckets: []float64{
				.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 86400,
			},
		}, []string{"group", "topic"}),
	}
	r.MustRegister(m.lag, m.oldest, m.progress, m.held, m.assigned, m.age)
	return m
}

// PartitionMetrics are the metrics of one assigned partition. Package inbox/consumer uses them. A nil *PartitionMetrics
// measures nothing.
type PartitionMetrics struct {
	m                     *consumerMetrics
	labels                []string
	lag, oldest, progress prometheus.Gauge
	age                   prometheus.Observer
}

// Partition begins the series of an assigned partition.
func (m *Metrics) Partition(group, topic string, partition int) *PartitionMetrics {
	if m == nil {
		return nil
	}
	labels := []string{group, topic, strconv.Itoa(partition)}
	m.consumer.assigned.WithLabelValues(group, topic).Inc()
	return &PartitionMetrics{
		m: &m.consumer, labels: labels,
		lag:      m.consumer.lag.WithLabelValues(labels...),
		oldest:   m.consumer.oldest.WithLabelValues(labels...),
		progress: m.consumer.progress.WithLabelValues(labels...),
		age:      m.consumer.age.WithLabelValues(group, topic),
	}
}

// Lag is the number of records that wait; negative: not known.
func (p *PartitionMetrics) Lag(records int64) {
	if p != nil && records >= 0 {
		p.lag.Set(float64(records))
	}
}

// Oldest is the timestamp of the record that is being handled.
func (p *PartitionMetrics) Oldest(timestamp time.Time) {
	if p != nil {
		p.oldest.Set(unix(timestamp))
	}
}

// Progress is a moment at which nothing waited.
func (p *PartitionMetrics) Progress(now time.Time) {
	if p != nil {
		p.progress.Set(unix(now))
	}
}

// Held is the number of keys whose events wait for an open dead letter.
func (p *PartitionMetrics) Held(keys int) {
	if p != nil {
		p.m.held.WithLabelValues(p.labels...).Set(float64(keys))
	}
}

// Done is the end of a record.
func (p *PartitionMetrics) Done(now time.Time) {
	if p != nil {
		p.progress.Set(unix(now))
		p.oldest.Set(0)
	}
}

// Age is that of an event at the end of its record.
func (p *PartitionMetrics) Age(age time.Duration) {
	if p != nil {
		p.age.Observe(max(age, 0).Seconds())
	}
}

// End removes the series: the partition is assigned to another member from now on.
func (p *PartitionMetrics) End() {
	if p == nil {
		return
	}
	for _, gauge := range []*prometheus.GaugeVec{p.m.lag, p.m.oldest, p.m.progress, p.m.held} {
		gauge.DeleteLabelValues(p.labels...)
	}
	p.m.assigned.WithLabelValues(p.labels[:2]...).Dec()
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}
