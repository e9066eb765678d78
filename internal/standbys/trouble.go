package standbys

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
)

// Wait is the kind of the wait for physical standbys.
const Wait = "physical_standbys"

// soon is how long a transaction may wait before that is a trouble to report.
const soon = time.Second

const listStandbys = "SELECT application_name, state, sync_state, sent_lsn, flush_lsn FROM pg_stat_replication;"

// trouble is why transactions wait, or why the server holds the stream back.
type trouble struct {
	reason string
	remedy fault.Remedy
	server bool // the server holds the stream back, whether or not a transaction waits here
	since  time.Time
}

// errElsewhere: the session that answers is not on the server that the stream is read from.
var errElsewhere = &fault.Error{
	Kind: fault.Retry, Object: "standbys",
	Err: errors.New("the server that answers does not serve the stream"),
	Next: "It passes when the stream is opened again. If it lasts, postgres.dsn leads to different servers; add " +
		"target_session_attrs=read-write to it.",
}

func unanswered(err error) *trouble {
	why, remedy := fault.Split(err)
	return &trouble{reason: "the server does not say how far the standbys are: " + why, remedy: remedy}
}

func hidden(role string) *trouble {
	return &trouble{
		reason: fmt.Sprintf("role %q may not see how far the standbys are", role),
		remedy: Grant(role),
	}
}

// Grant lets a role see how far the standbys are.
func Grant(role string) fault.Remedy {
	return fault.Do("Let the role see the sessions of others.",
		fmt.Sprintf("GRANT pg_read_all_stats TO %s;", identifier.Quote(role)))
}

// troubleOf says what the answer means for r. It keeps the time of the trouble before, with the lock.
func (g *Gate) troubleOf(l *Look, v *verdict, r *request) *trouble {
	var t *trouble
	switch unused := l.unused(); {
	case g.mode == stepped && len(unused) > 0:
		t = &trouble{server: true, reason: fmt.Sprintf("no standby uses %s, and the server holds the stream back for "+
			"it (synchronized_standby_slots)", slotNames(unused)), remedy: fault.Do("Start the standby. If it will "+
			"not return, take its slot out of the setting, with the names of the others in the second command.",
			listStandbys, "ALTER SYSTEM SET synchronized_standby_slots = 'OTHER_SLOT';", "SELECT pg_reload_conf();")}
	case r == nil || v.flushed > 0 && v.flushed >= r.target && r.target > 0:
		return nil
	case len(v.missing) > 0:
		t = g.missing(v)
	default:
		t = &trouble{
			reason: fmt.Sprintf("standby %q has flushed %s, and the transaction ends at %s or before", v.slowest,
				v.flushed, max(r.target, r.commit)),
			remedy: fault.Do("See whether its disk and the network keep up.", listStandbys),
		}
	}
	if g.trouble != nil && !g.trouble.since.IsZero() {
		t.since = g.trouble.since
	} else {
		t.since = time.Now()
	}
	return t
}

func (g *Gate) missing(v *verdict) *trouble {
	what := "no standby with the application_name " + quoted(v.missing) + " is connected"
	if g.cfg.FollowsServer() {
		return &trouble{
			reason: what + ", and synchronous_standby_names waits for it",
			remedy: fault.Do("Start the standby. If it will not return, name the standbys that are left: commits on "+
				"the server wait for it as well.", listStandbys,
				"ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (OTHER_STANDBY)';", "SELECT pg_reload_conf();"),
		}
	}
	return &trouble{
		reason: what + ", and postgres.wait_for_standbys waits for it",
		remedy: fault.Do("Start the standby, or correct the name. If it will not return and must not be promoted, "+
			"take it out of postgres.wait_for_standbys and restart the relay.", listStandbys),
	}
}

func quoted(names []string) string {
	for i, name := range names {
		names[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(names, ", ")
}

func slotNames(names []string) string {
	if len(names) == 1 {
		return "slot " + quoted(names)
	}
	return "the slots " + quoted(names)
}

// names is what is waited for, as a log field.
func (g *Gate) names() zap.Field {
	names := strings.Join(g.cfg.Names, ", ")
	if n := g.cfg.Needed(); n < len(g.cfg.Names) {
		names = fmt.Sprintf("%d of: %s", n, names)
	}
	return zap.String(logkey.Standbys, names)
}

// Waiting is the transaction that waits, and since when; ok is false where none does.
func (g *Gate) Waiting() (committed, since time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.request == nil {
		return committed, since, false
	}
	return g.request.committed, g.request.since, true
}

// Reason is why a transaction waits, in a sentence without a full stop.
func (g *Gate) Reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason()
}

func (g *Gate) reason() string {
	if g.trouble == nil {
		return "waiting for the standbys to flush a transaction"
	}
	return g.trouble.reason
}

// Waits lists what has been waited for longer than a moment.
func (g *Gate) Waits() []fault.Wait {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := fault.Wait{Kind: Wait, Object: "standbys", Reason: g.reason()}
	switch {
	case g.request != nil:
		w.Since = g.request.since
	case g.trouble != nil && g.trouble.server:
		w.Since = g.trouble.since
	default:
		return nil
	}
	if time.Since(w.Since) < soon {
		return nil
	}
	if g.trouble != nil {
		w.Next, w.Commands = g.trouble.remedy.Next, g.trouble.remedy.Commands
	}
	return []fault.Wait{w}
}

// report logs a wait that lasts, and its end.
func (g *Gate) report() {
	g.mu.Lock()
	r, t := g.request, g.trouble
	g.mu.Unlock()
	if g.said != nil && g.said != r {
		select {
		case <-g.said.done:
			g.log.Info("the standbys have flushed the transaction; publishing continues",
				zap.Duration(logkey.Lasted, time.Since(g.said.since).Round(time.Millisecond)))
		default: // it is not waited for any more
		}
		g.said = nil
	}
	if r == nil || g.said == r || t == nil || time.Since(r.since) < g.cfg.Patience {
		return
	}
	g.said = r
	g.log.Warn("nothing is published: a transaction waits for physical standbys",
		append(telemetry.RemedyFields(t.remedy), zap.String(logkey.Reason, t.reason),
			zap.Stringer(logkey.LSN, r.commit))...)
}
