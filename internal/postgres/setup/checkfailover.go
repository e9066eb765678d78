package setup

import (
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// codeFailover is the code of the findings about a failover to a standby. Programs rely on it.
const codeFailover = "next_failover"

// checkFailover says of each server that may be promoted what a failover to it would do to the stream.
func checkFailover(st state) []preflight.Finding {
	var out []preflight.Finding
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
