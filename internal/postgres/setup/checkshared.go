package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// The codes of findings about what the relay shares with everything else on the server. Programs rely on them.
const (
	codeSynchronous = "synchronous_standby"
	codeEmitters    = "public_messages"
)

// checkSynchronous looks whether commits of the whole server wait for the relay. A session that streams counts as a
// standby also where it decodes, and it confirms only what Kafka has.
func checkSynchronous(cfg Config, st state) []preflight.Finding {
	names, application := st.Server.SyncNames, session.Application(cfg.Slot)
	if st.Server.InRecovery || !session.TakesIn(names, application) {
		return nil
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Fail, Code: codeSynchronous, Subject: "synchronous_standby_names",
		Found: fmt.Sprintf("It is %q, which takes in the stream (application_name %q).", names, application),
		Why: "Every commit on the server may then wait until Kafka has acknowledged what was committed before; while " +
			"Kafka is away, no commit returns.",
	}.With(fault.Do("Name the physical standbys there, and nothing else. The first command lists them; put their "+
		"names in the second.", "SELECT application_name, sync_state, slot_type FROM pg_stat_replication r "+
		"LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid;",
		"ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby_1)';", "SELECT pg_reload_conf();"))}
}

// checkEmitters warns that a role without any grant can write events. EXECUTE on the functions is PUBLIC's from the
// beginning.
func checkEmitters(cfg Config, st state) []preflight.Finding {
	if len(cfg.Messages) == 0 || len(st.Server.PublicEmitters) == 0 {
		return nil
	}
	f := preflight.Finding{
		Level: preflight.Warn, Code: codeEmitters, Subject: "pg_logical_emit_message",
		Found: "Every role of the database may call it.",
		Why: "The relay takes messages with the prefixes of postgres.messages for events, whichever role emits " +
			"them: a role without any grant can forge one.",
		Remedy: "Take the right from PUBLIC, in this database, and give it to the roles of the applications that " +
			"emit events.",
	}
	for _, function := range st.Server.PublicEmitters {
		f.Commands = append(f.Commands, fmt.Sprintf("REVOKE EXECUTE ON FUNCTION pg_catalog.%s FROM PUBLIC;", function))
	}
	for _, function := range st.Server.PublicEmitters {
		f.Commands = append(f.Commands, fmt.Sprintf("GRANT EXECUTE ON FUNCTION pg_catalog.%s TO my_service;", function))
	}
	return []preflight.Finding{f}
}
