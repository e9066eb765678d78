package pooler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// The codes of findings about what is between here and the server. Programs rely on them: add, do not rename.
const (
	codePooler         = "pooler"                 // a pooler through which the stream does not come
	codePoolerSettings = "pooler_settings"        // something drops the session's settings
	codePoolerPasses   = "pooler_passes"          // a pooler that lets replication connections pass
	codeUnknownProxy   = "unknown_proxy"          // another backend pid, and it is not known who answers
	codeReplication    = "replication_connection" // the server itself refuses the replication connection
)

// Route is what was seen of the way from here to the server. The sound evidence of something in between that speaks the
// protocol itself: the pid of BackendKeyData, which a server sends at the login, is not pg_backend_pid(). A TCP proxy,
// which only copies bytes, changes neither.
type Route struct {
	Host string // as postgres.dsn names it
	Port uint16
	User string

	KeyPID     uint32 // of BackendKeyData
	BackendPID uint32 // pg_backend_pid(); 0: SQL could not be asked
	Forwarded  bool   // the server sees the connection come from another port than ours
	// the server's own address, as its client in between reaches it; empty for a socket in the file system
	ServerAddr string
	ServerPort int

	Shared  bool   // two connections of ours, both open, were served by one backend: it is lent out per transaction
	Product string // what the program in between calls itself, "PgBouncer 1.24.1"
	Behind  string // host:port of the server as the pooler's console names it
	// a service's own proxy, which copies the stream, is known to answer here (see cloud.Service.Proxied)
	Transit bool

	Tried    bool            // a replication connection was tried
	Refusal  *pgconn.PgError // came instead of one
	Bare     bool            // one without the stream's settings came
	Ordinary bool            // "replication" was dropped: an ordinary connection came
	Lost     []string        // settings of the session that did not arrive
}

// Replicates reports whether the route leads to a walsender with the session that the stream needs.
func (w Route) Replicates() bool {
	return w.Tried && w.Refusal == nil && !w.Ordinary && len(w.Lost) == 0
}

// LacksRight reports whether the role may not replicate, by the server's word (CheckPermissions in walsender.c,
// InitPostgres in postinit.c).
func (w Route) LacksRight() bool { return w.Refusal != nil && w.Refusal.Code == "42501" }

// Relayed reports whether another backend's pid came with the login. Some send none at all, which reads as 0.
func (w Route) Relayed() bool { return w.BackendPID != 0 && w.KeyPID != w.BackendPID }

// Suspicious ways are worth the questions that cost a connection or a line in the server's log.
func (w Route) Suspicious() bool { return w.Relayed() || w.Forwarded }

func (w Route) pgpool() bool { return strings.HasPrefix(w.Product, pgpool) }

// The names of what is distinguished.
const (
	pgBouncer = "PgBouncer"
	pgpool    = "Pgpool-II"
	pgCat     = "PgCat"
	odyssey   = "Odyssey"
	supavisor = "Supavisor, Supabase's pooler"
	neonPool  = "Neon's pooler (PgBouncer)"
	rdsProxy  = "Amazon RDS Proxy"
	azurePool = "Azure's built-in PgBouncer"
)

// RefusesParameters reports whether no Postgres sends such a refusal. PgBouncer, and similar poolers, know a handful of
// startup parameters and refuse all others, "replication" among them (before PgBouncer 1.23), with the SQLSTATE of a
// protocol violation.
func RefusesParameters(e *pgconn.PgError) bool {
	return e.Code == "08P01" && strings.Contains(e.Message, "unsupported startup parameter") ||
		strings.Contains(e.Message, "RDS Proxy")
}

// loginRefusals are how PgBouncer refuses a login, all with the SQLSTATE of a protocol violation. Postgres has codes of
// class 28 and 3D000 for these, so the code together with the words distinguishes the two.
var loginRefusals = []string{
	"password authentication failed", "SASL authentication failed", "no such user", "no such database",
	"does not exist", "not allowed",
}

// RefusesLogin reports whether the error is how a pooler refuses a login: a protocol violation, in words of its own.
func RefusesLogin(e *pgconn.PgError) bool {
	return e.Code == "08P01" && slices.ContainsFunc(loginRefusals, func(words string) bool {
		return strings.Contains(e.Message, words)
	})
}

// byName guesses by the host, once something else has shown that it is not a server. Alone a name proves nothing.
func (w Route) byName() string {
	host := strings.ToLower(strings.TrimSuffix(w.Host, "."))
	first, rest, _ := strings.Cut(host, ".")
	switch {
	case w.Port == 0: // one of several
		return ""
	case strings.HasSuffix(rest, "pooler.supabase.com"):
		return supavisor
	case strings.HasSuffix(first, "-pooler") && strings.HasSuffix(rest, ".neon.tech"):
		return neonPool
	case strings.HasPrefix(rest, "proxy-") && strings.Contains(rest, ".rds.amazonaws.com"),
		w.Refusal != nil && strings.Contains(w.Refusal.Message, "RDS Proxy"):
		return rdsProxy
	case strings.HasSuffix(rest, "postgres.database.azure.com") && w.Port == 6432:
		return azurePool
	}
	return ""
}

// OnService marks the ways that lead through what a service has in front of every server.
func OnService(ways []Route, s cloud.Service) []Route {
	for i, w := range ways {
		ways[i].Transit = s.Proxied() && w.Replicates() && w.name() == ""
	}
	return ways
}

// name is who is in between, empty where nothing says.
func (w Route) name() string {
	if n := w.byName(); n != "" {
		return n
	}
	return w.Product
}

func (w Route) address() string {
	if w.Port == 0 {
		return w.Host
	}
	return fmt.Sprintf("%s:%d", w.Host, w.Port)
}

func (w Route) subject() string { return "way to " + w.address() }

// findings judges the connection. An ordinary connection gets no finding.
func (w Route) findings() []preflight.Finding {
	f := preflight.Finding{Level: preflight.Fail, Code: codePooler, Subject: w.subject(), Remedy: w.direct()}
	who := w.name()
	if who == "" {
		who = "something that is not Postgres: a pooler or a proxy"
	}
	switch {
	case w.Refusal != nil && w.Bare:
		f.Found = fmt.Sprintf("It leads to %s, which lets a replication connection pass, but not with the settings "+
			"that decide how values are written.", who)
		f.Why = "Without them records would hold other bytes than they should; and a pooler that is configured to " +
			"ignore them drops them."
	case w.Refusal != nil && RefusesParameters(w.Refusal):
		f.Found = fmt.Sprintf("It leads to %s, which does not let the replication connection pass: %s.", who,
			preflight.TrimStop(w.Refusal.Message))
		f.Why = "The connector reads the log over a replication connection with settings of its own; a pooler lends " +
			"out ordinary ones."
	case w.Refusal != nil && RefusesLogin(w.Refusal):
		f.Found = fmt.Sprintf("It leads to %s, which refuses the login: %s.",
			cmp.Or(w.name(), "PgBouncer or a pooler like it"), preflight.TrimStop(w.Refusal.Message))
		f.Why = "No Postgres refuses a login with this SQLSTATE (08P01). A pooler has users and databases of its " +
			"own, and is no way for the stream."
	case w.Ordinary:
		f.Found = fmt.Sprintf("It leads to %s, which answers the request for a replication connection with an "+
			"ordinary one.", who)
		f.Why = "The log can be read over a replication connection only."
	case w.pgpool():
		f.Found = fmt.Sprintf("It leads to %s.", who)
		f.Why = "It takes the command that starts the stream and passes on nothing of what follows, and the slot " +
			"stays taken."
	case len(w.Lost) > 0:
		f.Code = codePoolerSettings
		f.Found = fmt.Sprintf("It leads to %s, which drops settings of the session: %s.", who,
			strings.Join(w.Lost, ", "))
		f.Why = "The stream relies on them; some decide how values are written, so records would hold other bytes " +
			"than they should."
	case w.Refusal != nil:
		return w.serverRefusal(f)
	case w.Relayed() && w.Transit:
		return []preflight.Finding{
			preflight.Fine(w.subject(), "The service's own proxy answers, and lets the replication connection pass."),
		}
	case w.Shared:
		f.Found = fmt.Sprintf("It leads to %s, which lends its connections to the server out for a transaction: two "+
			"of ours had the same backend.", who)
		f.Why = "Locks and settings of a session do not last there; setup would leave its lock held."
	case w.Relayed():
		return []preflight.Finding{w.passes(f)}
	default:
		return nil
	}
	return []preflight.Finding{f}
}

// passes: a replication connection came through, so run may well work; or none was tried, and nothing is known.
func (w Route) passes(f preflight.Finding) preflight.Finding {
	f.Level, f.Code = preflight.Warn, codePoolerPasses
	if who := w.name(); who != "" {
		f.Found = fmt.Sprintf("It leads to %s.", who)
	} else {
		f.Code = codeUnknownProxy
		f.Found = fmt.Sprintf("Something between us and the server answers with another backend pid: %d at the "+
			"login, %d by pg_backend_pid().", w.KeyPID, w.BackendPID)
	}
	f.Why = "It lets the replication connection pass, yet it is one thing more that can end, delay or refuse " +
		"the stream."
	if !w.Replicates() {
		f.Why = "Whether it lets a replication connection pass could not be seen."
	}
	return f
}

// serverRefusal is for what a server itself may say. Missing rights and missing senders have findings of their own.
func (w Route) serverRefusal(f preflight.Finding) []preflight.Finding {
	switch w.Refusal.Code {
	case "42501", "53300":
		if w.Relayed() && !w.Transit {
			return []preflight.Finding{w.passes(f)}
		}
		return nil
	}
	f.Code = codeReplication
	f.Found = fmt.Sprintf("An ordinary connection works, a replication connection does not: %s.",
		preflight.TrimStop((&sqlstate.Refusal{PgError: w.Refusal}).Error()))
	f.Why = "The connector reads the log over one."
	if !w.Relayed() && w.name() == "" {
		f.Remedy = sqlstate.LoginRemedy
	}
	return []preflight.Finding{f}
}

// ToHostOf fills in the host of a configuration, where there is only one.
func (w Route) ToHostOf(pc *pgconn.Config) Route {
	hosts := eachHost(pc)
	w.User = pc.User
	if len(hosts) == 1 {
		w.Host, w.Port = pc.Host, pc.Port
		return w
	}
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s:%d", h.Host, h.Port))
	}
	w.Host = "one of " + strings.Join(names, ", ")
	return w
}

// Fault is what the findings that fail come to outside check, nil where none does.
func (w Route) Fault() error { return preflight.FirstFailure(w.findings()) }
