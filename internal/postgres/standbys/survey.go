package standbys

import (
	"context"
	"encoding/json"
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
	// mostServers bounds how many servers are asked.
	mostServers = 32
	// askTimeout bounds one connection attempt, and the questions after it.
	askTimeout = 5 * time.Second
)

// Survey asks the servers that may be promoted, and forecasts a failover to each. Servers are host or host:port; none:
// the further hosts of the connection string, or the standbys that the primary knows, at its port. They are reached as
// the connection string says, but for the host. q is connected to the server that has the slot. Without the slot, and
// on a standby, there is no forecast.
func Survey(ctx context.Context, q postgres.Querier, dsn, slot string, servers []string) ([]Forecast, error) {
	p := &primary{}
	server, err := postgres.LookupServer(ctx, q)
	if err == nil {
		p.slot, err = postgres.LookupSlot(ctx, q, slot)
	}
	if err != nil || server.InRecovery || !p.slot.Exists {
		return nil, err
	}
	p.version = server.Version
	if p.facts, err = lookupFacts(ctx, q); err != nil {
		return nil, err
	}
	asked, err := promotable(ctx, q, dsn, servers)
	if err != nil {
		return nil, err
	}
	asked = asked[:min(len(asked), mostServers)]
	found := make([]*Forecast, len(asked))
	var g errgroup.Group
	g.SetLimit(8)
	for i, server := range asked {
		g.Go(func() error {
			found[i] = p.ask(ctx, dsn, server)
			return nil
		})
	}
	_ = g.Wait()
	var all []Forecast
	for _, f := range found {
		if f != nil {
			all = append(all, *f)
		}
	}
	return all, ctx.Err()
}

// ask is nil for the primary itself.
func (p *primary) ask(ctx context.Context, dsn, server string) *Forecast {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	s, err := lookupSuccessor(ctx, dsn, server, p.slot.Name)
	if err != nil {
		why, next := fault.Split(err)
		if next.IsZero() {
			next = fault.Do("See whether the server runs and can be reached from here, as postgres.dsn says but for " +
				"the host. Name the servers that can be promoted in postgres.standbys.")
		}
		return &Forecast{
			Server: server, Outcome: Unknown, Sentence: "It cannot be asked: " + strings.TrimSuffix(why, ".") + ".",
			Next: next,
		}
	}
	f, isPrimary := p.judge(server, s)
	if isPrimary {
		return nil
	}
	return &f
}

func lookupSuccessor(ctx context.Context, dsn, server, slot string) (*successor, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	conn, err := postgres.Open(ctx, postgres.AtHost(dsn, host, port), postgres.ConnectOptions{
		Application: "cdc-outbox standbys", Timeout: askTimeout, Unprepared: true,
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
		s.facts, err = lookupFacts(ctx, conn)
	}
	return s, err
}

const factsSQL = `
SELECT jsonb_build_object(
  'system', (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
  'started', extract(epoch FROM pg_postmaster_start_time())::text,
  'syncs', coalesce(current_setting('sync_replication_slots', true)::bool, false),
  'wal', CASE WHEN pg_is_in_recovery()
    THEN coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')
    ELSE pg_current_wal_flush_lsn() END)::text`

func lookupFacts(ctx context.Context, q postgres.Querier) (f facts, err error) {
	var row []byte
	if err = q.QueryRow(ctx, factsSQL).Scan(&row); err == nil {
		if err = json.Unmarshal(row, &f); err == nil {
			f.at, err = lsn.Parse(f.WAL)
		}
	}
	if err != nil {
		return f, fmt.Errorf("ask the server about its standbys: %w", err)
	}
	return f, nil
}

// promotable are the servers to ask, as host:port.
func promotable(ctx context.Context, q postgres.Querier, dsn string, named []string) ([]string, error) {
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return nil, postgres.DSNFault(dsn)
	}
	port := strconv.Itoa(int(pc.Port))
	if len(named) > 0 {
		return withPort(named, port), nil
	}
	var hosts []string
	for _, f := range pc.Fallbacks { // of one host as well, with and without TLS
		at := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if !slices.Contains(hosts, at) && !strings.HasPrefix(f.Host, "/") {
			hosts = append(hosts, at)
		}
	}
	if own := net.JoinHostPort(pc.Host, port); len(hosts) > 0 && !slices.Contains(hosts, own) {
		hosts = append(hosts, own)
	}
	if len(hosts) > 1 {
		return hosts, nil
	}
	err = q.QueryRow(ctx, `SELECT coalesce(array_agg(DISTINCT host(r.client_addr)), '{}')
		FROM pg_catalog.pg_stat_replication r LEFT JOIN pg_catalog.pg_replication_slots s ON s.active_pid = r.pid
		WHERE r.client_addr IS NOT NULL AND r.state = 'streaming'
		  AND s.slot_type IS DISTINCT FROM 'logical'`).Scan(&hosts)
	if err != nil {
		return nil, fmt.Errorf("ask the server about its standbys: %w", err)
	}
	return withPort(hosts, port), nil
}

// withPort adds the port where there is none.
func withPort(hosts []string, port string) []string {
	all := make([]string, len(hosts))
	for i, host := range hosts {
		if all[i] = host; net.ParseIP(host) != nil || !strings.Contains(host, ":") {
			all[i] = net.JoinHostPort(host, port)
		}
	}
	return all
}
