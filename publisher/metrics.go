package publisher

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metrics collects from the relay that runs, or ran last. Each relay has the same ones, so a registry that has them
// already has another Publisher.
type metrics struct{ p *Publisher }

// Describe implements prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) { m.p.now.Load().registry.Describe(ch) }

// Collect implements prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) { m.p.now.Load().registry.Collect(ch) }

func (p *Publisher) gather() ([]*dto.MetricFamily, error) { return p.now.Load().registry.Gather() }
