package standbys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

const (
	// mostServers bounds how many servers are asked, at the same time.
	mostServers = 32
	// connectTimeout bounds one connection attempt, and surveyTimeout a survey.
	connectTimeout, surveyTimeout = 5 * time.Second, 15 * time.Second
)

// Survey asks the servers that may be promoted, and forecasts a failover to each. Servers are host or host:port, none:
// the hosts of the connection string. They are reached as the connection string says, but for the host. q is connected
// to the server that has the slot. There is no forecast on a standby, without the slot, and of a slot that is lost.
func Survey(ctx context.Context, q postgres.Querier, dsn, slot string, servers []string) ([]Forecast, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	asked, err := promotable(dsn, servers)
	if err != nil || len(asked) == 0 {
		return nil, err
	}
	p := &primary{}
	server, err := postgres.LookupServer(ctx, q)
	if err == nil && !server.InRecovery {
		p.version = server.Version
		p.facts, err = lookupFacts(ctx, q, slot)
	}
	if err != nil || server.InRecovery {
		return nil, err
	}
	answers, failures := make([]*successor, len(asked)), make([]error, len(asked))
	var g errgroup.Group
	for i, at := range asked {
		g.Go(func() error {
			answers[i], failures[i] = ask(ctx, dsn, at, slot)
			return nil
		})
	}
	_ = g.Wait()
	// Only now: the relay and a tool that copies slots go on meanwhile, and a copy must not seem to be ahead.
	if p.slot, err = postgres.LookupSlot(ctx, q, slot); err != nil || !p.slot.Exists || p.slot.Invalidated() {
		return nil, err
	}
	var all []Forecast
	for i, at := range asked {
		if failures[i] != nil {
			all = append(all, unknown(at, failures[i]))
		} else if f, isPrimary := p.judge(at, answers[i]); !isPrimary {
			all = append(all, f)
		}
	}
	return all, nil
}

// unknown leaves out the remedies of a failed login: a standby has the roles of its primary.
func unknown(server string, err error) Forecast {
	why := err.Error()
	var known *fault.Error
	if errors.As(err, &known) {
		why = known.Err.Error()
	}
	return Forecast{
		Server: server, Outcome: Unknown, Sentence: "It cannot be asked: " + strings.TrimSuffix(why, ".") + ".",
		Next: fault.Do("See whether the server runs, and lets the role of postgres.dsn log in from here: its " +
			"pg_hba.conf, and a password file's line for this host."),
	}
}

func ask(ctx context.Context, dsn, server, slot string) (*successor, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	conn, err := postgres.Open(ctx, postgres.AtHost(dsn, host, port), postgres.ConnectOptions{
		Application: "cdc-outbox standbys", Timeout: connectTimeout, Unprepared: true,
	})
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	s := &successor{}
	if s.server, err = postgres.LookupServer(ctx, conn); err == nil {
		s.slot, err = postgres.LookupSlot(ctx, conn, slot)
	}
	if err == nil {
		s.facts, err = lookupFacts(ctx, conn, slot)
	}
	return s, err
}

// factsSQL: the server releases a synchronized copy after each cycle, so inactive_since is when it was synchronized
// last. A version that does not know the column has none in the row.
const factsSQL = `
SELECT jsonb_build_object(
  'system', (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
  'started', extract(epoch FROM pg_postmaster_start_time())::text,
  'syncs', coalesce(current_setting('sync_replication_slots', true)::bool, false),
  'physical', (SELECT coalesce(jsonb_agg(slot_name), '[]') FROM pg_catalog.pg_replication_slots
    WHERE slot_type = 'physical' AND active),
  'idle', (SELECT extract(epoch FROM clock_timestamp() - (to_jsonb(s)->>'inactive_since')::timestamptz)
    FROM pg_catalog.pg_replication_slots s WHERE slot_name = $1::text),
  'wal', CASE WHEN pg_is_in_recovery()
    THEN coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')
    ELSE pg_current_wal_flush_lsn() END)::text`

func lookupFacts(ctx context.Context, q postgres.Querier, slot string) (f facts, err error) {
	var row []byte
	if err = q.QueryRow(ctx, factsSQL, slot).Scan(&row); err == nil {
		if err = json.Unmarshal(row, &f); err == nil {
			f.at, err = lsn.Parse(f.WAL)
		}
	}
	if err != nil {
		return f, fmt.Errorf("ask the server about its standbys: %w", err)
	}
	return f, nil
}

// promotable lists the servers to ask, as host:port. A host that only the server names is not asked: it would be given
// the login.
func promotable(dsn string, named []string) ([]string, error) {
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return nil, postgres.DSNFault(dsn)
	}
	port := strconv.Itoa(int(pc.Port))
	if len(named) == 0 {
		named = append(named, net.JoinHostPort(pc.Host, port))
		for _, f := range pc.Fallbacks { // of one host as well, with and without TLS
			at := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
			if !slices.Contains(named, at) {
				named = append(named, at)
			}
		}
		if len(named) == 1 {
			return nil, nil
		}
	}
	all := make([]string, min(len(named), mostServers))
	for i := range all {
		host := strings.Trim(named[i], "[]")
		if all[i] = named[i]; net.ParseIP(host) != nil || !strings.Contains(host, ":") {
			all[i] = net.JoinHostPort(host, port)
		}
	}
	return all, nil
}
