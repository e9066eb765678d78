package telemetry

import "github.com/prometheus/client_golang/prometheus"

// PollingGauges are the gauges of the relay that polls, read at each scrape.
type PollingGauges struct {
	Backlog func() (rows, oldestSeconds float64)
	Halted  func() int // lanes
	Window  func() (records int, bytes int64)
}

// WatchBacklog registers the two gauges of the backlog.
func WatchBacklog(reg prometheus.Registerer, backlog func() (rows, oldestSeconds float64)) {
	gauge(reg, "backlog_rows", "Committed outbox rows that are not published, as of the last look; counted up "+
		"to 100000.",
		func() float64 { rows, _ := backlog(); return rows })
	gauge(reg, "backlog_oldest_seconds",
		"Age of the oldest row that is not published, by its timestamp column; 0 where there is none.",
		func() float64 { _, age := backlog(); return age })
}

// WatchPolling registers the gauges. Call it once, in place of Watch.
func (m *Metrics) WatchPolling(g PollingGauges) {
	WatchBacklog(m.reg, g.Backlog)
	gauge(m.reg, "polling_lanes_halted",
		"Lanes, each a 64th of a table's keys, that stand at a row that cannot be published.",
		func() float64 { return float64(g.Halted()) })
	gauge(m.reg, "window_records", helpWindowRecords, func() float64 { n, _ := g.Window(); return float64(n) })
	gauge(m.reg, "window_bytes", helpWindowBytes, func() float64 { _, n := g.Window(); return float64(n) })
}
