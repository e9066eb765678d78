package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// codeSessionLimits is of findings about limits that end the relay's sessions. Programs rely on it.
const codeSessionLimits = "session_limits"

// Limit is a setting of the server, the database or the role that a session of the relay could not override.
type Limit struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// hastyKeepalives is the time, in seconds, after which a lost packet should not yet count as a dead client.
const hastyKeepalives = 5

// LookupLimits reads the limits that are in force in this session, and how long the server waits for an answer to TCP
// keepalives, in seconds; 0 where it waits as the kernel does.
func LookupLimits(ctx context.Context, q Querier) (limits []Limit, keepalives int, err error) {
	var listed []byte
	err = q.QueryRow(ctx, `SELECT `+session.Limits+`::text,
		coalesce(max(setting::int) FILTER (WHERE name = 'tcp_keepalives_idle'), 0)
		+ coalesce(max(setting::int) FILTER (WHERE name = 'tcp_keepalives_interval'), 0)
		* coalesce(max(setting::int) FILTER (WHERE name = 'tcp_keepalives_count'), 0)
		FROM pg_catalog.pg_settings WHERE name LIKE 'tcp\_keepalives\_%' AND source <> 'client'`).
		Scan(&listed, &keepalives)
	if err == nil {
		err = json.Unmarshal(listed, &limits)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the limits of the session: %w", err)
	}
	return limits, keepalives, nil
}

// CheckLimits names the limits that the relay's sessions cannot override.
func CheckLimits(limits []Limit, keepalives int, user string) []preflight.Finding {
	var out []preflight.Finding
	if len(limits) > 0 {
		var found, commands []string
		for _, l := range limits {
			found = append(found, fmt.Sprintf("%s is %s (%s)", l.Name, l.Value, l.Source))
			commands = append(commands, LimitCommand(user, l.Name))
		}
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Code: codeSessionLimits, Subject: "session limits",
			Found: strings.Join(found, ", ") + ".",
			Why: "Such limits are for applications, and they bind this session as well: the relay does not override " +
				"default_transaction_read_only, and it overrides nothing in a session that a pooler lends out.",
			Remedy: "Set them for the role of the relay.", Commands: commands,
		})
	}
	if keepalives > 0 && keepalives < hastyKeepalives {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Code: codeSessionLimits, Subject: "tcp_keepalives",
			Found: fmt.Sprintf("The server gives up a connection that has not answered for %d seconds.", keepalives),
			Why:   "A moment's pause of the network is enough to end the stream.",
			Remedy: "Raise tcp_keepalives_idle, tcp_keepalives_interval and tcp_keepalives_count for the role of the " +
				"relay.",
			Commands: []string{fmt.Sprintf("ALTER ROLE %s SET tcp_keepalives_idle = 60;", identifier.Quote(user))},
		})
	}
	return out
}

// LimitCommand takes a limit away from the relay's role.
func LimitCommand(user, setting string) string {
	value, ok := session.Wanted()[setting]
	if !ok {
		value = "0"
	}
	return fmt.Sprintf("ALTER ROLE %s SET %s = %s;", identifier.Quote(user), setting, identifier.QuoteLiteral(value))
}

// LimitOf is the setting that an SQLSTATE with which a server ends a session belongs to, empty for others.
func LimitOf(code string) string {
	switch code {
	case "25P03":
		return "idle_in_transaction_session_timeout"
	case "25P04":
		return "transaction_timeout"
	case "57P05":
		return "idle_session_timeout"
	}
	return ""
}

// LimitRemedy is what to do about a limit that ended a session. user may be empty.
func LimitRemedy(user, setting string) fault.Remedy {
	next := setting + " of the server, the database or the role ends the session. Set it to 0 for the role of the " +
		"relay."
	if user == "" {
		return fault.Do(next)
	}
	return fault.Do(next, LimitCommand(user, setting))
}
