package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// settled is how long each situation is healthy before something happens.
const settled = time.Minute

// With these there are forecasts.
var (
	limit  = map[string]string{"max_slot_wal_keep_size": "1GB"}
	volume = map[string]string{"CDC_OUTBOX_MONITOR_WAL_VOLUME": "2GiB"}
)

var situations = []situation{
	{
		name: "healthy-busy", length: 10 * time.Minute, settings: limit, env: volume,
		what: "Healthy: 200 events a second, with a limit of 1 GB and a volume of 2 GiB.",
		play: func(ctx context.Context, s *stage) error { return s.insert(ctx, 20, 10) },
	},
	{
		name: "healthy-beside-other-wal", length: 10 * time.Minute, settings: limit, env: volume,
		what: "Healthy: 20 events a second beside 5 MB/s of other WAL, with a limit of 1 GB and a volume of 2 GiB.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, func(ctx context.Context) error { return s.fill(ctx, 5<<20) })
		},
	},
	{
		name: "broker-down", length: 6 * time.Minute,
		what: "20 events a second; after a minute the broker goes away.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(func(context.Context) error { s.closeBroker(); return nil }))
		},
	},
	{
		name: "topic-missing", length: 6 * time.Minute,
		what: "20 events a second; after a minute one of them is for a topic that does not exist.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(s.statement(`
				INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('refund', '1', 'e')`)))
		},
	},
	{
		name: "row-halted", length: 6 * time.Minute,
		what: "20 events a second; after a minute a row has headers that are not an object.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(s.statement(badRow)))
		},
	},
	{
		name: "target-down", length: 4 * time.Minute,
		what: "20 events a second; after a minute the process is killed, and no one starts it again.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(func(context.Context) error { s.process.Kill(); return nil }))
		},
	},
	{
		name: "target-vanished", length: 8 * time.Minute,
		what: "20 events a second; after a minute the target no longer exists.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(func(context.Context) error { s.unlist(); return nil }))
		},
	},
	{
		name: "crash-loop", length: 8 * time.Minute, play: crashLoop,
		what: "After a minute the publication is dropped, so each start ends with exit code 3; the pause before the " +
			"next start begins with 10 seconds and doubles.",
	},
	{
		name: "row-skipped", length: 4 * time.Minute, env: map[string]string{"CDC_OUTBOX_ROUTER_ON_BAD_ROW": "skip"},
		what: "20 events a second; after a minute a row cannot be routed, and router.on_bad_row is skip.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, after(s.statement(badRow))) },
	},
	{
		name: "webhook-away", length: 8 * time.Minute,
		env: map[string]string{
			"CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter", "CDC_OUTBOX_MONITOR_WEBHOOK": "http://127.0.0.1:1/",
		},
		what: "20 events a second; after a minute a row is dead-lettered, and the webhook's receiver does not answer.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, after(s.statement(badRow))) },
	},
	{
		name: "connection-breaks", length: 4 * time.Minute,
		what: "20 events a second; after a minute the server ends the replication connection every five seconds.",
		play: func(ctx context.Context, s *stage) error {
			return s.eventsAnd(ctx, after(func(ctx context.Context) error {
				return s.repeat(ctx, 5*time.Second, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots`)
			}))
		},
	},
	{
		name: "postgres-away", length: 8 * time.Minute,
		what: "20 events a second; after a minute Postgres is stopped.",
		play: func(ctx context.Context, s *stage) error {
			writing, end := context.WithTimeout(ctx, settled)
			defer end()
			if err := s.insert(writing, 20, 1); writing.Err() == nil {
				return err
			}
			return s.db.Stop(ctx, postgres.Immediate)
		},
	},
	{
		name: "collector-away", length: 18 * time.Minute,
		env: map[string]string{
			"CDC_OUTBOX_TRACES_ENDPOINT": "http://127.0.0.1:1", "CDC_OUTBOX_TRACES_SAMPLE": "100%",
		},
		what: "20 events a second, all traced, and no collector answers.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx) },
	},
	{
		name: "slot-unread", length: 8 * time.Minute, args: []string{"monitor"},
		what: "The monitor alone, on a server with a slot that no process reads and 100 kB/s of WAL.",
		play: func(ctx context.Context, s *stage) error {
			if err := s.abandoned(ctx); err != nil {
				return err
			}
			return s.fill(ctx, 100_000)
		},
	},
	{
		name: "slot-lost", length: 6 * time.Minute, args: []string{"monitor"},
		settings: map[string]string{"max_slot_wal_keep_size": "128MB", "max_wal_size": "64MB", "min_wal_size": "32MB"},
		what: "The monitor alone, on a server with a slot that no process reads, a limit of 128 MB and 1 MB/s of " +
			"WAL, which loses the slot.",
		play: func(ctx context.Context, s *stage) error {
			if err := s.abandoned(ctx); err != nil {
				return err
			}
			return s.fill(ctx, 1<<20)
		},
	},
	{
		name: "consumer-healthy", length: 18 * time.Minute,
		what: "20 events a second, and an application handles them.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, s.consumes(handled)) },
	},
	{
		name: "consumer-hangs", length: 9 * time.Minute,
		what: "20 events a second, and an application whose handlers hang after a minute.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, s.consumes(hangs(ctx))) },
	},
	{
		name: "consumer-stopped", length: 8 * time.Minute,
		what: "20 events a second, and an application that is stopped after a minute.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, once(s.consumes(handled))) },
	},
	{
		name: "consumer-behind", length: 18 * time.Minute,
		what: "An application begins with the events of an hour, and handles one a second of each partition.",
		play: func(ctx context.Context, s *stage) error {
			if err := s.backlog(ctx, 3, 3600); err != nil {
				return err
			}
			return together(ctx, s.consumes(slow))
		},
	},
	{
		name: "consumer-letters", length: 9 * time.Minute,
		what: "20 events a second, and an application that cannot read one of them after a minute.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, s.consumes(refuses())) },
	},
	{
		name: "consumer-fails", length: 17 * time.Minute,
		what: "20 events a second, and an application whose handlers fail after a minute, all of them.",
		play: func(ctx context.Context, s *stage) error { return s.eventsAnd(ctx, s.consumes(fails)) },
	},
	{
		name: "consumer-repeats", length: 18 * time.Minute,
		what: "An application gets each event three times.",
		play: func(ctx context.Context, s *stage) error { return together(ctx, s.again, s.consumes(handled)) },
	},
}

// badRow cannot be routed.
const badRow = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, headers)
	VALUES ('order', '1', 'e', '[1]')`

// eventsAnd commits 20 events a second while the other parts run.
func (st *stage) eventsAnd(ctx context.Context, parts ...func(context.Context) error) error {
	return together(ctx, append(parts, func(ctx context.Context) error { return st.insert(ctx, 20, 1) })...)
}

// together runs the parts until one fails or ctx ends.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		g.Go(func() error { return p(ctx) })
	}
	return g.Wait()
}

// after does one thing once the situation has been healthy for a while.
func after(what func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settled):
			return what(ctx)
		}
	}
}

func (st *stage) statement(sql string) func(context.Context) error {
	return func(ctx context.Context) error { return st.db.Exec(ctx, database, sql) }
}

// insert commits transactions, each of some events.
func (st *stage) insert(ctx context.Context, perSecond, events int) error {
	return st.repeat(ctx, time.Second/time.Duration(perSecond), fmt.Sprintf(
		`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
			SELECT 'order', i::text, 'placed', '{"total": 1}' FROM generate_series(1, %d) i`, events))
}

// fill writes WAL that concerns no table of the publication.
func (st *stage) fill(ctx context.Context, perSecond int) error {
	return st.repeat(ctx, time.Second/5, fmt.Sprintf(
		`SELECT pg_logical_emit_message(false, 'filler', repeat('x', %d))`, perSecond/5))
}

func (st *stage) repeat(ctx context.Context, pause time.Duration, sql string) error {
	c, err := st.db.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
}

// abandoned makes a slot that no process reads.
func (st *stage) abandoned(ctx context.Context) error {
	return st.db.Exec(ctx, database, `SELECT pg_create_logical_replication_slot('abandoned', 'pgoutput')`)
}

// crashLoop starts the process whenever it has ended, with the pauses of Kubernetes.
func crashLoop(ctx context.Context, s *stage) error {
	loop := func(ctx context.Context) error {
		pause := 10 * time.Second
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if p, _, _ := s.target(); p.Running() {
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			pause *= 2
			if err := s.launch(); err != nil {
				return err
			}
		}
	}
	return s.eventsAnd(ctx, loop, after(s.statement(`DROP PUBLICATION cdc_outbox`)))
}
