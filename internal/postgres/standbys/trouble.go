package standbys

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
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
	case len(unused) > 0:
		t = &trouble{server: true, reason: fmt.Sprintf("no standby uses %s, and the server holds the stream back for "+
			"it (synchronized_standby_slots)", slotNames(unused)), remedy: fault.Do("Start the standby. If it will "+
			"not return, take its slot out of the setting, with the names of the others in the second command.",
			listStandbys, "ALTER SYSTEM SET synchronized_standby_slots = 'OTHER_SLOT';", "SELECT pg_reload_conf();")}
	case r == nil || v.flushed > 0 && v.flushed >= r.target && r.target > 0:
		return nil
	case len(v.missing) > 0:
		t = g.missing(l, v)
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

func (g *Gate) missing(l *Look, v *verdict) *trouble {
	for _, name := range v.missing {
		if state := l.state(name); state != "" {
			return &trouble{
				reason: fmt.Sprintf("standby %q is connected and not yet up to date (state %s)", name, state),
				remedy: fault.Do("See whether it makes progress.", listStandbys),
			}
		}
	}
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

// Committed is when the transaction that waits was committed; ok is false where none waits.
func (g *Gate) Committed() (at time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.request == nil {
		return at, false
	}
	return g.request.committed, true
}

// Held is since when nothing is published, and why, in a sentence without a full stop; ok is false where nothing is
// held back.
func (g *Gate) Held() (since time.Time, why string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since, ok = g.held()
	return since, g.reason(), ok
}

func (g *Gate) held() (since time.Time, ok bool) {
	switch {
	case g.request != nil:
		return g.request.since, true
	case g.trouble != nil && g.trouble.server:
		return g.trouble.since, true
	}
	return since, false
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
	since, held := g.held()
	if !held || time.Since(since) < soon {
		return nil
	}
	w := fault.Wait{Kind: Wait, Object: "standbys", Reason: g.reason(), Since: since}
	if g.trouble != nil {
		w.Next, w.Commands = g.trouble.remedy.Next, g.trouble.remedy.Commands
	}
	return []fault.Wait{w}
}

// report logs that nothing is published for long, and that it is again.
func (g *Gate) report() {
	g.mu.Lock()
	since, held := g.held()
	t := g.trouble
	g.mu.Unlock()
	if !g.saidSince.IsZero() && (!held || !since.Equal(g.saidSince)) {
		g.log.Info("publishing no longer waits for physical standbys",
			zap.Duration(logkey.Lasted, time.Since(g.saidSince).Round(time.Millisecond)))
		g.saidSince = time.Time{}
	}
	if !held || t == nil || since.Equal(g.saidSince) || time.Since(since) < g.cfg.Patience {
		return
	}
	g.saidSince = since
	g.log.Warn("nothing is published: a transaction waits for physical standbys",
		append(telemetry.RemedyFields(t.remedy), zap.String(logkey.Reason, t.reason))...)
}
