package setup

import (
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// The codes of findings about the server's settings. Programs rely on them: add, do not rename.
const (
	codeService     = "managed_service"
	codeWALLevel    = "wal_level"
	codeRole        = "role_replication"
	codeNoSlot      = "no_free_slot"
	codeNoSender    = "no_free_sender"
	codeUnlimited   = "slot_wal_unlimited"
	codeSmallLimit  = "slot_wal_small"
	codeSlotTimeout = "slot_idle_timeout"
	codeSender      = "sender_timeout"
)

// plausibleStop is how long a slot should last by its size while no session reads it: through a night without an
// operator.
const plausibleStop = 8 * time.Hour

// someLimit, in MB, is a limit to begin with.
const someLimit = 50 * 1024

// shortStatistics is the age below which the statistics say nothing about a rate.
const shortStatistics = 10 * time.Minute

// worst is the higher of the known rates, in bytes a second, and where it is from.
func (r walRate) worst() (rate float64, measured string) {
	if r.Over >= shortStatistics {
		rate, measured = r.Average, fmt.Sprintf("the average of the last %s", period(r.Over))
	}
	if r.Present > rate {
		return r.Present, "the present rate"
	}
	return rate, measured
}

func checkWALLimit(cfg Config, st state) preflight.Finding {
	s := st.Server
	const subject = "max_slot_wal_keep_size"
	if s.SlotWALKeepMB < 0 {
		f := preflight.Finding{
			Level: preflight.Warn, Code: codeUnlimited, Subject: subject,
			Found: "It is -1: a slot may hold back WAL without limit.",
			Why: "While no session reads the slot, WAL piles up until the disk is full and the whole " +
				"server stops." + cfg.Retained.sentence(),
		}.With(s.Service.With(s.Service.LimitWAL(someLimit)))
		if s.Service.LimitsWAL() {
			f.Remedy += " Choose what the disk can spare: beyond the limit the slot is lost instead, so watch " +
				"cdc_outbox_slot_seconds_to_limit."
		}
		return f
	}
	limit := float64(s.SlotWALKeepMB) * (1 << 20)
	found := fmt.Sprintf("A slot may hold back %s of WAL; beyond that it is lost.", size(limit))
	rate, measured := st.WAL.worst()
	if rate <= 0 {
		return preflight.Fine(subject, found)
	}
	lasts := min(limit/rate, (10 * 365 * 24 * time.Hour).Seconds())
	holds := time.Duration(lasts * float64(time.Second))
	found = fmt.Sprintf("A slot may hold back %s of WAL, which is what is written in %s at %s (%s/s); beyond that "+
		"it is lost.",
		size(limit), period(holds), measured, size(rate))
	if holds >= plausibleStop {
		return preflight.Fine(subject, found)
	}
	f := preflight.Finding{
		Level: preflight.Warn, Code: codeSmallLimit, Subject: subject, Found: found,
		Why: fmt.Sprintf("A connector, or Kafka, that is away for longer costs the slot, and its events have to be "+
			"published again from the table. "+
			"The alert slot_time_to_limit warns an hour ahead, and critically ten minutes ahead: here that leaves "+
			"%s in all.", period(holds)),
	}
	need := int64(rate * (24 * time.Hour).Seconds() / (1 << 20))
	need = max((need/1024+1)*1024, s.SlotWALKeepMB+1)
	f = f.With(s.Service.With(s.Service.LimitWAL(need)))
	if s.Service.LimitsWAL() {
		f.Remedy += " This is a day of WAL at that rate, if the disk can spare it."
	}
	return f
}

// Retained are the thresholds of the slot monitor, for what is said about them. Zero: not known.
type Retained struct{ Warn, Critical int64 }

func (r Retained) sentence() string {
	if r.Warn <= 0 || r.Critical <= 0 {
		return ""
	}
	return fmt.Sprintf(" `run` alerts when it holds back more than monitor.warn_retained (%s), and critically from "+
		"monitor.critical_retained (%s) on.",
		size(float64(r.Warn)), size(float64(r.Critical)))
}

// plausibleOutage is how long a connector may well be away: over a long weekend.
const plausibleOutage = 3 * 24 * time.Hour

// checkIdleTimeout: from 18 on a checkpoint invalidates a slot that no session has read for longer than this setting,
// however little WAL it holds back.
func checkIdleTimeout(st state) []preflight.Finding {
	timeout := time.Duration(st.Server.IdleTimeout) * time.Second
	if timeout == 0 || timeout >= plausibleOutage {
		return nil
	}
	set := st.Server.Service.IdleTimeout(7 * 24 * 60 * 60)
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Code: codeSlotTimeout, Subject: "idle_replication_slot_timeout",
		Found: fmt.Sprintf("It is %s.", timeout),
		Why: "A slot that no session reads for so long is lost with the next " +
			"checkpoint, and an outage of the connector may well last longer.",
	}.With(st.Server.Service.With(set).Then(fault.Do("A value of 0 disables it: max_slot_wal_keep_size bounds " +
		"what an abandoned slot can do.")))}
}

// hastySender is the wal_sender_timeout below which a moment of the process or the network ends the stream. A longer
// one is of no interest: the stream's session has one of its own then (see sessionTimeout).
const hastySender = 5 * time.Second

func checkSenderTimeout(st state) []preflight.Finding {
	timeout := time.Duration(st.Server.SenderTimeout) * time.Millisecond
	if timeout <= 0 || timeout >= hastySender {
		return nil
	}
	set := st.Server.Service.SenderTimeout(60_000)
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Code: codeSender, Subject: "wal_sender_timeout",
		Found: fmt.Sprintf("It is %s.", timeout), Why: "A server that has heard nothing for so long ends the stream; " +
			"a moment's pause of the network or the process is enough.",
	}.With(fault.Do("For this connector alone, in postgres.dsn: wal_sender_timeout=10000; or for the server:").
		Then(st.Server.Service.With(set)))}
}

// size prints bytes for people.
func size(bytes float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= u.of {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", bytes/u.of), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%.0f bytes", bytes)
}

// period prints a time for people, in one unit.
func period(d time.Duration) string {
	for _, u := range []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if n := int(d / u.of); n >= 2 || n == 1 && u.of == time.Minute {
			if n == 1 {
				return "1 " + u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", int(d/time.Second))
}
