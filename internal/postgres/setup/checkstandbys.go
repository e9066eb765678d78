package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
)

// The codes of findings about the standbys that may be promoted. Programs rely on them.
const (
	codeStandbyRights  = "standby_rights"      // how far standbys are may not be seen
	codeStandbyMissing = "standby_missing"     // one that is waited for is not connected
	codeStandbyGate    = "standby_gate"        // events are published before standbys have them
	codeHeldSlots      = "synchronized_slots"  // synchronized_standby_slots does not hold the slot back
	codeHeldMissing    = "synchronized_absent" // it names a slot that does not exist
)

const waitForStandbys = "postgres.wait_for_standbys"

// maySeeStandbys fails where transactions have to wait for standbys and the role may not see how far those are.
func maySeeStandbys(cfg Config, server postgres.Server) []preflight.Finding {
	if len(cfg.Standbys.Names) == 0 || server.MaySeeOthers {
		return nil
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Fail, Code: codeStandbyRights, Subject: waitForStandbys,
		Found: fmt.Sprintf("Role %q may not see how far the standbys are.", server.User),
		Why:   "Nothing could be published, because each transaction waits until the standbys have it.",
	}.With(standbys.Grant(server.User))}
}

// lookAtStandbys is nil on a standby, which does not know of others.
func lookAtStandbys(ctx context.Context, q postgres.Querier, cfg Config,
	server postgres.Server,
) (*standbys.Look, error) {
	if server.InRecovery {
		return nil, nil
	}
	return standbys.Ask(ctx, q, cfg.Slot)
}

// checkStandbys looks whether a failover could take back what Kafka has.
func checkStandbys(cfg Config, st state) []preflight.Finding {
	l := st.Standbys
	if l == nil {
		return nil
	}
	if lacks := maySeeStandbys(cfg, st.Server); lacks != nil {
		return lacks
	}
	out := checkHeldSlots(cfg, st)
	heldBack := l.Failover && len(l.Held()) > 0
	switch {
	case len(cfg.Standbys.Names) > 0:
		out = append(out, checkNamedStandbys(cfg.Standbys, l)...)
	case l.SyncNames != "" && !heldBack:
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Code: codeStandbyGate, Subject: "synchronous_standby_names",
			Found: fmt.Sprintf("It is %q, and %s is empty.", l.SyncNames, waitForStandbys),
			Why: "Events are published while their writers still wait for these standbys in COMMIT. If the primary " +
				"dies then, Kafka has events whose rows do not exist on the promoted standby.",
			Remedy: fmt.Sprintf("Set %s to %s.", waitForStandbys, standbys.AsServer),
		})
	}
	return out
}

func checkNamedStandbys(d standbys.Demand, l *standbys.Look) []preflight.Finding {
	if d.FollowsServer() && l.SyncNames == "" {
		return []preflight.Finding{{
			Level: preflight.Warn, Code: codeStandbyGate, Subject: waitForStandbys,
			Found: "It follows synchronous_standby_names, which is empty.",
			Why:   "Events are published without waiting for a standby; a failover may take their rows back.",
			Remedy: "Name the standbys in synchronous_standby_names, where commits should wait for them as well, " +
				"or in " + waitForStandbys + ".",
		}}
	}
	missing := d.Missing(l)
	if len(missing) == 0 {
		return []preflight.Finding{preflight.Fine(waitForStandbys, "The standbys that it names are connected.")}
	}
	f := preflight.Finding{
		Level: preflight.Fail, Code: codeStandbyMissing, Subject: waitForStandbys,
		Found: fmt.Sprintf("No standby is connected under the application_name %s.", strings.Join(missing, ", ")),
		Why:   "Nothing is published before the standbys have it.",
	}.With(fault.Do("Start the standby, or correct the name. The command lists what is connected.",
		"SELECT application_name, state, flush_lsn, slot_type FROM pg_stat_replication r "+
			"LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid;"))
	for _, name := range missing {
		if l.Decodes(name) {
			f.Found = fmt.Sprintf("%s is the application_name of a session that decodes, not of a standby.", name)
			f.Remedy = "Name physical standbys. The command lists what is connected."
		}
	}
	return []preflight.Finding{f}
}

// checkHeldSlots: from 17 on the server can hold a slot with failover back for the standbys of other slots.
func checkHeldSlots(cfg Config, st state) []preflight.Finding {
	const subject = "synchronized_standby_slots"
	l := st.Standbys
	if st.Server.Version < 170000 || !l.Failover {
		return nil
	}
	held := l.Held()
	if len(held) == 0 {
		if len(cfg.Standbys.Names) > 0 {
			return nil // the relay waits itself
		}
		value := "STANDBY_SLOT"
		if len(l.Slots) > 0 {
			value = strings.Join(l.Slots, ", ")
		}
		return []preflight.Finding{preflight.Finding{
			Level: preflight.Warn, Code: codeHeldSlots, Subject: subject,
			Found: "It is empty, and the slot has failover.",
			Why: "Events are published before the standby has their rows. After a promotion Kafka may have events " +
				"whose rows no longer exist.",
		}.With(fault.Do("Name the slots of the physical standbys that may be promoted, or set " +
			waitForStandbys + ". The stream then waits for them, also while one is away.").
			Then(st.Server.Service.With(st.Server.Service.Set(subject, value, false))))}
	}
	var absent []string
	for _, slot := range held {
		if !slices.Contains(l.Slots, slot) {
			absent = append(absent, slot)
		}
	}
	if len(absent) == 0 {
		return []preflight.Finding{preflight.Fine(subject, "The server holds the stream back for "+
			strings.Join(held, ", ")+".")}
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Code: codeHeldMissing, Subject: subject,
		Found: fmt.Sprintf("There is no physical slot %s.", strings.Join(absent, ", ")),
		Why:   "The server holds the stream back for that slot, so nothing is published before it exists.",
	}.With(fault.Do("Take the name out of the setting, or create the slot.",
		fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s');", absent[0])))}
}
