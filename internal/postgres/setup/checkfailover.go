package setup

import (
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// codeFailover is the code of the findings about a failover to a standby. Programs rely on it.
const codeFailover = "next_failover"

// checkFailover says of each server that may be promoted what a failover to it would do to the stream.
func checkFailover(cfg Config, st state) []preflight.Finding {
	var out []preflight.Finding
	blind := preflight.Finding{
		Level: preflight.Warn, Code: codeFailover, Subject: "postgres.standbys", Why: standbys.Unknown.Meaning(),
	}
	switch {
	case st.Unsurveyed != nil:
		why, next := fault.Split(st.Unsurveyed)
		blind.Found = "No standby can be asked: " + why
		if next.IsZero() {
			next = fault.Do("Correct that, or leave postgres.standbys empty.")
		}
		out = append(out, blind.With(next))
	case cfg.Failover && st.Slot.Exists && !st.Server.InRecovery && len(st.Failovers) == 0:
		blind.Found = "It is empty, and postgres.dsn names no other server."
		blind.Remedy = "Name the servers that may be promoted."
		out = append(out, blind)
	}
	for i := range st.Failovers {
		f := &st.Failovers[i]
		subject := "failover to " + f.Server
		if f.Outcome == standbys.Continues {
			out = append(out, preflight.Fine(subject, f.Sentence))
			continue
		}
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Code: codeFailover, Subject: subject, Found: f.Sentence, Why: f.Outcome.Meaning(),
		}.With(f.Next))
	}
	return out
}
