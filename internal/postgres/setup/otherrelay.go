package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// CodeOtherRelay is the code of the finding that another relay reads the same publication. Programs rely on it.
const CodeOtherRelay = "other_relay"

// otherRelaysSQL asks for the relays of this database, by the names of their sessions, that read the publication
// through other slots. The command of a session, which names the publication, shows to its own role and to members of
// pg_read_all_stats.
const otherRelaysSQL = `
SELECT array(SELECT format('%s (pid %s)', s.slot_name, s.active_pid)
  FROM pg_catalog.pg_replication_slots s JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
 WHERE s.slot_type = 'logical' AND s.database = current_database() AND s.slot_name <> $1::name
   AND a.application_name = $2::text || s.slot_name AND position($3::text IN a.query) > 0
 ORDER BY s.slot_name)`

// lookupOtherRelays returns none where the server does not say.
func lookupOtherRelays(ctx context.Context, q postgres.Querier, cfg Config) (relays []string) {
	err := q.QueryRow(ctx, otherRelaysSQL, cfg.Slot, session.Application(""), identifier.Quote(cfg.Publication)).
		Scan(&relays)
	if err != nil {
		return nil
	}
	return relays
}

// checkOtherRelays warns of each event published twice. It can be meant: the other relay may write to other topics, or
// to another cluster. Relays that share a table by row filters have a publication each.
func checkOtherRelays(cfg Config, st state) []preflight.Finding {
	if len(st.Relays) == 0 {
		return nil
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Code: CodeOtherRelay, Subject: cfg.PublicationSubject(),
		Found: fmt.Sprintf("Another relay reads it through another slot: %s.", strings.Join(st.Relays, ", ")),
		Why: "If it writes to the same topics of the same Kafka, each event is published twice, and a key's events " +
			"out of order. If it writes elsewhere, this is as it should be.",
	}.With(fault.Do("Unless both are meant, stop one of them and remove its slot, or the slot keeps WAL. Several "+
		"instances of one relay use the same slot: the others wait.", "cdc-outbox teardown --dry-run"))}
}
