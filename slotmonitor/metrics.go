package slotmonitor

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	retainedDesc    = slotDesc("slot_retained_wal_bytes", "WAL the slot holds back: current position - restart_lsn.")
	unconfirmedDesc = slotDesc("slot_unconfirmed_wal_bytes",
		"WAL the slot's reader has not confirmed: current position - confirmed_flush_lsn.")
	growthDesc = slotDesc("slot_growth_bytes_per_second",
		"Growth of the WAL the slot holds back, over the last minute.")
	secondsDesc = slotDesc("slot_seconds_to_limit",
		"Time until max_slot_wal_keep_size at the present growth; +Inf while it does not grow; absent without a limit.")
	activeDesc = slotDesc("slot_active", "1 while a session reads the slot.")
	statusDesc = slotDesc("slot_wal_status", "1 for the slot's present wal_status, 0 for the others.", "status")
	fullDesc   = slotDesc("slot_seconds_to_full",
		"Time until the volume of pg_wal is full at the present growth; +Inf while it does not grow; absent without "+
			"monitor.wal_volume.")
	growth15Desc = slotDesc("slot_growth_15m_bytes_per_second",
		"Growth of the WAL the slot holds back, over the last fifteen minutes.")
	inactiveDesc = slotDesc("slot_inactive_seconds",
		"Time since a session read the slot, 0 while a session does, and for a standby's copy.")
	stillDesc  = slotDesc("slot_confirmed_age_seconds", "Time since confirmed_flush_lsn moved.")
	holderDesc = slotDesc("slot_oldest_transaction_seconds",
		"Age of the server's oldest open transaction that has written, which restart_lsn cannot pass; 0 where none "+
			"is older than 10 s.")
	spilledDesc = slotDesc("slot_spilled_bytes_total",
		"Decoded changes that did not fit into logical_decoding_work_mem and went to disk.")
	streamedDesc = slotDesc("slot_streamed_bytes_total", "Decoded changes sent to the reader before their commit.")
	safeDesc     = slotDesc("slot_safe_wal_bytes",
		"WAL that may still be written before the slot is in danger of being lost; absent without a limit.")
)

func slotDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cdc_outbox_"+name, help, append([]string{"slot"}, labels...), nil)
}

// collector shows the latest slots. It makes the series again at each scrape, so the series of a dropped slot end with
// it, and so do all series when the server has not answered for a while: an old figure looks like a healthy one.
type collector struct {
	latest func() []Slot // none when out of date
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		retainedDesc, unconfirmedDesc, growthDesc, secondsDesc, activeDesc, statusDesc,
		safeDesc,
		fullDesc, growth15Desc, inactiveDesc, stillDesc, holderDesc, spilledDesc, streamedDesc,
	} {
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
		collectMore(s, gauge)
		if s.Stats != nil {
			ch <- prometheus.MustNewConstMetric(spilledDesc, prometheus.CounterValue, float64(s.Stats.SpilledBytes),
				s.Name)
			ch <- prometheus.MustNewConstMetric(streamedDesc, prometheus.CounterValue, float64(s.Stats.StreamedBytes),
				s.Name)
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

// collectMore shows what helps to see why.
func collectMore(s Slot, gauge func(*prometheus.Desc, float64, ...string)) {
	if s.Growth15m != nil {
		gauge(growth15Desc, *s.Growth15m)
	}
	switch {
	case s.SecondsToFull != nil:
		gauge(fullDesc, *s.SecondsToFull)
	case s.VolumeBytes != nil:
		gauge(fullDesc, math.Inf(1))
	}
	inactive, still, held := 0.0, 0.0, 0.0
	if s.InactiveSince != nil && !s.Synced { // no session can read a standby's copy
		inactive = max(0, s.SampledAt.Sub(*s.InactiveSince).Seconds())
	}
	if s.ConfirmedSince != nil {
		still = max(0, s.SampledAt.Sub(*s.ConfirmedSince).Seconds())
	}
	if s.HeldBy != nil {
		held = s.HeldBy.Age.Seconds()
	}
	gauge(inactiveDesc, inactive)
	gauge(stillDesc, still)
	gauge(holderDesc, held)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// outdated is the age from which the latest answer is no longer shown as metrics.
func outdated(interval time.Duration) time.Duration { return 3*interval + 2*queryTimeout }
