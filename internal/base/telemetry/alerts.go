package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// alertLevels are the values of the label level.
var alertLevels = []string{"warn", "critical"}

// WatchAlerts registers alert_firing: of each alert a series for each level, of which one at most is 1. firing returns
// the levels of the alerts that fire at the moment, by name; it is called at each scrape, from the HTTP server's
// goroutines. Names come from a closed list of rules; names in known show as 0 from the start.
func WatchAlerts(reg prometheus.Registerer, firing func() map[string]string, known ...string) {
	seen := map[string]bool{}
	for _, name := range known {
		seen[name] = true
	}
	reg.MustRegister(&alerts{firing: firing, seen: seen, desc: prometheus.NewDesc(Namespace+"_alert_firing",
		"1 while the alert fires at this level, 0 otherwise.", []string{"alert", "level"}, nil)})
}

// alerts remembers the alerts that fired, so that a resolved alert shows as 0 rather than as a series that ended.
type alerts struct {
	firing func() map[string]string
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
	firing := a.firing()
	for name := range firing {
		a.seen[name] = true
	}
	for name := range a.seen {
		for _, level := range alertLevels {
			v := 0.0
			if firing[name] == level {
				v = 1
			}
			ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, v, name, level)
		}
	}
}
