package slotmonitor

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	retainedDesc    = slotDesc("slot_retained_wal_bytes", "WAL the slot holds back: current position - restart_lsn.")
	unconfirmedDesc = slotDesc("slot_unconfirmed_wal_bytes", "WAL the slot's reader has not confirmed: current position - confirmed_flush_lsn.")
	growthDesc      = slotDesc("slot_growth_bytes_per_second", "Growth of the WAL the slot holds back, over the last minute.")
	secondsDesc     = slotDesc("slot_seconds_to_limit", "Time until max_slot_wal_keep_size at the present growth; +Inf while it does not grow; absent without a limit.")
	activeDesc      = slotDesc("slot_active", "1 while somebody reads the slot.")
	statusDesc      = slotDesc("slot_wal_status", "1 for the slot's present wal_status, 0 for the others.", "status")
	safeDesc        = slotDesc("slot_safe_wal_bytes", "WAL that may still be written before the slot is in danger of being lost; absent without a limit.")
)

func slotDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cdc_outbox_"+name, help, append([]string{"slot"}, labels...), nil)
}

// collector shows the latest slots. It makes the series anew at each scrape, so those of a dropped slot are gone with
// it, and so are all when the server has not answered for a while: an old figure looks like a healthy one.
type collector struct {
	latest func() []Slot // none when out of date
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{retainedDesc, unconfirmedDesc, growthDesc, secondsDesc, activeDesc, statusDesc, safeDesc} {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.latest() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Name}, labels...)...)
		}
		if s.kept {
			gauge(retainedDesc, float64(s.RetainedBytes))
			gauge(unconfirmedDesc, float64(s.UnconfirmedBytes))
		}
		if s.GrowthPerSecond != nil {
			gauge(growthDesc, *s.GrowthPerSecond)
		}
		switch {
		case s.SecondsToLimit != nil:
			gauge(secondsDesc, *s.SecondsToLimit)
		case s.SafeBytes != nil:
			gauge(secondsDesc, math.Inf(1))
		}
		gauge(activeDesc, truth(s.Active))
		for _, status := range walStatuses {
			gauge(statusDesc, truth(s.WALStatus == status), status)
		}
		if s.SafeBytes != nil {
			gauge(safeDesc, float64(*s.SafeBytes))
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// outdated is the age from which the latest answer is no longer shown as metrics.
func outdated(interval time.Duration) time.Duration { return 3*interval + 2*queryTimeout }
