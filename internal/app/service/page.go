package service

import (
	"net"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/runbook"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// pageConfig names the sources of the page's figures; relay is nil if there are only slots.
func (p *process) pageConfig(mc slotmonitor.Config, monitor *slotmonitor.Monitor, relay func() page.Relay) page.Config {
	return page.Config{
		Relay: relay, Slots: func() []page.Slot { return slotFigures(monitor) },
		SlotInterval: mc.Interval, WarnRetained: mc.Thresholds.WarnRetained,
		CriticalRetained: mc.Thresholds.CriticalRetained,
		Version:          p.Build.Version, Runbook: runbook.Handler(),
	}
}

func relayFigures(c *connector.Connector, metrics *telemetry.Metrics) page.Relay {
	st := c.Status()
	bounds, counts, seconds := metrics.Latencies()
	return page.Relay{
		Published: st.Counts.Published, Bounds: bounds, Counts: counts, Sum: seconds,
		Oldest:  st.OldestUnconfirmedSeconds,
		Records: st.Window.Records, Bytes: st.Window.Bytes,
	}
}

// slotFigures also lists slots that were seen before the server went away: their history stays, and gets no new sample.
func slotFigures(monitor *slotmonitor.Monitor) []page.Slot {
	var all []page.Slot
	for _, s := range monitor.Latest() {
		all = append(
			all,
			page.Slot{Name: s.Name, SampledAt: s.SampledAt, Retained: s.RetainedBytes, Unconfirmed: s.UnconfirmedBytes},
		)
	}
	return all
}

// pageAddress is the page's address for a browser on the server's host.
func pageAddress(listens string) string {
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}
