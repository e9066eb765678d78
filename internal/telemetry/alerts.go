package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchAlerts registers alert_firing. firing returns the names of the alerts that fire at the moment; it is called at
// each scrape, from the HTTP server's goroutines. Names come from a closed list of rules; names in known show as 0 from
// the start.
func WatchAlerts(reg prometheus.Registerer, firing func() []string, known ...string) {
	seen := map[string]bool{}
	for _, name := range known {
		seen[name] = false
	}
	reg.MustRegister(&alerts{firing: firing, seen: seen, desc: prometheus.NewDesc(
		Namespace+"_alert_firing", "1 while the alert fires, 0 once it is resolved.", []string{"alert"}, nil)})
}

// alerts remembers what fired, so that a resolved alert shows as 0 rather than as a series that ended.
type alerts struct {
	firing func() []string
	desc   *prometheus.Desc

	mu   sync.Mutex
	seen map[string]bool
}

// Describe implements prometheus.Collector.
func (a *alerts) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *alerts) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.seen {
		a.seen[name] = false
	}
	for _, name := range a.firing() {
		a.seen[name] = true
	}
	for name, on := range a.seen {
		v := 0.0
		if on {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, v, name)
	}
}
