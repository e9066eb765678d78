package telemetry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TopicCount is how many events of a topic Kafka has acknowledged since the process started.
type TopicCount struct {
	Topic     string `json:"topic"`
	Published uint64 `json:"published"`
}

// Topics lists the topics with the most events, n at most, the largest first.
func (m *Metrics) Topics(n int) []TopicCount {
	m.mu.RLock()
	all := make([]TopicCount, 0, len(m.topics))
	for topic, c := range m.topics {
		if count := counted(c); count > 0 { // one that only failed is listed among the failures
			all = append(all, TopicCount{topic, count})
		}
	}
	full := len(m.topics) >= MaxTopics
	m.mu.RUnlock()
	if full {
		if count := counted(m.published.WithLabelValues(OtherTopic)); count > 0 {
			all = append(all, TopicCount{OtherTopic, count})
		}
	}
	slices.SortFunc(all, func(a, b TopicCount) int {
		return cmp.Or(cmp.Compare(b.Published, a.Published), strings.Compare(a.Topic, b.Topic))
	})
	return slices.Clip(all[:min(n, len(all))])
}

func counted(c prometheus.Counter) uint64 {
	var d dto.Metric
	_ = c.Write(&d) // a counter without an exemplar cannot fail
	return uint64(d.GetCounter().GetValue())
}

// Latencies reads commit_to_ack_seconds: the upper bounds of its buckets, and how many transactions lay within each, so
// far and cumulated. The last count is of all, whatever they took; seconds is the sum of what they took.
func (m *Metrics) Latencies() (bounds []float64, counts []uint64, seconds float64) {
	var d dto.Metric
	if err := m.commitToAck.Write(&d); err != nil {
		return nil, nil, 0
	}
	h := d.GetHistogram()
	for _, b := range h.GetBucket() {
		bounds, counts = append(bounds, b.GetUpperBound()), append(counts, b.GetCumulativeCount())
	}
	return bounds, append(counts, h.GetSampleCount()), h.GetSampleSum()
}
