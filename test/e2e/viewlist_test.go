//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// faults are what an operator is called for.
func (s *stage) faults() []breakage {
	all := s.kafkaFaults()
	all = append(all, s.badRows()...)
	all = append(all, s.lockFaults()...)
	all = append(all, s.serverFaults()...)
	return append(all, s.slotFaults()...)
}

func (s *stage) kafkaFaults() []breakage {
	addr := s.broker.Addr()
	return []breakage{
		{
			name: "broker killed", words: []string{addr, "efuses connections"}, silent: []string{viewSlot},
			begin: func(s *stage) { s.broker.Kill(); s.insert(s.kind, 1) },
			end:   func(s *stage) { require.NoError(s, s.broker.Start(s.within(patience))) },
		},
		{
			name: "broker hung (SIGSTOP)", words: []string{addr, "not answer"}, silent: []string{viewSlot},
			begin: func(s *stage) { s.stopBroker(); s.insert(s.kind, 1) },
			end:   (*stage).startBroker, limit: 25 * time.Second,
		},
		{
			name: "topic deleted", words: []string{s.kind + ".events", "does not exist"}, silent: []string{viewSlot},
			begin: func(s *stage) {
				s.deleteTopic(s.kind + ".events")
				s.insert(s.kind, 1)
			},
		},
	}
}

func (s *stage) badRows() []breakage {
	var all []breakage
	for i, row := range []struct{ name, columns, values string }{
		{"row with NULL key", "", "NULL"},
		{"row with bad headers", ", headers", "'1', '[1]'"},
		{"row with a reserved header", ", headers", `'1', '{"id": "x"}'`},
		{
			"row of 2.5 MB", ", payload",
			`'1', to_jsonb((SELECT string_agg(md5(g::text), '') FROM generate_series(1, 80000) g))`,
		},
		{"row with an illegal topic", "", "'1'"},
	} {
		id := fmt.Sprintf("00000000-0000-4000-8000-00000000bad%d", i)
		b := breakage{
			name: row.name, words: []string{id}, silent: []string{viewSlot},
			begin: func(s *stage) { s.row(id, row.columns, row.values) },
		}
		switch i {
		case 0:
			b.begin = func(s *stage) {
				s.db.Exec(s, "ALTER TABLE outbox ALTER COLUMN aggregate_id DROP NOT NULL")
				s.row(id, row.columns, row.values)
			}
		case 4:
			b.begin = func(s *stage) {
				s.db.Exec(s, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type) VALUES ('`+id+
					`', 'a b', '1', 'e')`)
			}
		}
		all = append(all, b)
	}
	return all
}

func (s *stage) lockFaults() []breakage {
	var lock pgx.Tx
	begin := func(sql string) func(*stage) {
		return func(s *stage) {
			var err error
			lock, err = s.other.Begin(s.Context())
			require.NoError(s, err)
			_, err = lock.Exec(s.Context(), sql)
			require.NoError(s, err)
			s.insert(s.kind, 1)
		}
	}
	reopen := func(s *stage) { s.other = connect(s.all, s.db.DSN) }
	return []breakage{
		{
			name:   "checkpoint table locked",
			words:  []string{"cdc_outbox_slots", fmt.Sprintf("pid %d", s.other.PgConn().PID())},
			remedy: []string{fmt.Sprintf("pg_catalog.pg_terminate_backend(%d)", s.other.PgConn().PID())},
			begin:  begin("LOCK TABLE cdc_outbox_slots IN ACCESS EXCLUSIVE MODE"), limit: 40 * time.Second,
		},
		{
			name: "checkpoint table revoked", words: []string{"cdc_outbox_slots"},
			remedy: []string{"GRANT SELECT, INSERT, UPDATE, DELETE"},
			begin: func(s *stage) {
				reopen(s)
				s.superuser("REVOKE ALL ON cdc_outbox_slots FROM relay")
				s.insert(s.kind, 1)
			}, limit: 30 * time.Second,
		},
		{
			// The stream needs no lock, so nothing of the relay waits: /readyz, the log, the webhook and slot show
			// nothing. status --why and the page name the transaction once it holds back WAL.
			name: "outbox table locked", remedy: []string{"pg_terminate_backend"},
			silent: []string{viewReady, viewLog, viewSlot, viewWebhook, viewStatus},
			begin: func(s *stage) {
				s.other = connect(s.all, s.db.DSN)
				var err error
				lock, err = s.other.Begin(s.Context())
				require.NoError(s, err)
				_, err = lock.Exec(s.Context(), "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
				require.NoError(s, err)
				writer := connect(s.all, s.db.DSN)
				go func() {
					_, _ = writer.Exec(context.Background(), "INSERT INTO outbox (aggregate_type, aggregate_id, "+
						"event_type) VALUES ('"+s.kind+"', '1', 'waits')")
				}()
				writeWAL(s.T, connect(s.all, s.db.DSN), 4_000_000)
			}, limit: 20 * time.Second,
		},
		{
			name: "an open transaction", remedy: []string{"pg_terminate_backend"},
			silent: []string{viewReady, viewCheck, viewLog, viewSlot, viewWebhook},
			begin: func(s *stage) {
				s.other = connect(s.all, s.db.DSN)
				begin("INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('" + s.kind +
					"', '1', 'open')")(s)
				writeWAL(s.T, connect(s.all, s.db.DSN), 4_000_000)
			}, limit: 20 * time.Second,
		},
	}
}

func (s *stage) serverFaults() []breakage {
	addr := s.db.Addr()
	return []breakage{
		{
			name: "walsender terminated", silent: allViews, begin: (*stage).terminate, end: func(*stage) {},
		},
		{
			name: "Postgres stopped", words: []string{addr, "connection refused"}, silent: []string{viewWebhook},
			begin: func(s *stage) { require.NoError(s, s.db.Stop(s.within(patience), postgres.Fast)) },
			end: func(s *stage) {
				require.NoError(s, s.db.Start(s.within(patience)))
				s.other = connect(s.all, s.db.DSN)
			},
		},
		{
			name: "password changed", words: []string{"password authentication failed"}, silent: []string{viewWebhook},
			begin: func(s *stage) {
				s.superuser("ALTER ROLE relay PASSWORD 'another'")
				s.terminate()
			},
			end: func(s *stage) { s.superuser("ALTER ROLE relay PASSWORD '" + relayPassword + "'") },
		},
		{
			name: "REPLICATION taken away", words: []string{"replicate"},
			begin: func(s *stage) {
				s.superuser("ALTER ROLE relay NOREPLICATION")
				s.terminate()
			},
		},
		{
			name: "table out of the publication", words: []string{s.db.Publication, "outbox"},
			begin: func(s *stage) { s.superuser("ALTER PUBLICATION " + s.db.Publication + " DROP TABLE outbox") },
		},
		{
			name: "publication dropped and made again", words: []string{"slot"},
			remedy: []string{"cdc-outbox slot recreate --yes-lose-events", "cdc-outbox repair"},
			begin: func(s *stage) {
				s.superuser("DROP PUBLICATION " + s.db.Publication)
				s.insert(s.kind, 1)
				s.superuser("CREATE PUBLICATION "+s.db.Publication+" FOR TABLE outbox WITH (publish = 'insert')",
					"ALTER PUBLICATION "+s.db.Publication+" OWNER TO relay")
			},
		},
	}
}

func (s *stage) slotFaults() []breakage {
	keep := func(s *stage, size string) {
		s.superuser("ALTER SYSTEM SET max_slot_wal_keep_size = '"+size+"'", "SELECT pg_reload_conf()")
	}
	return []breakage{
		{
			name: "slot beyond its limit", words: []string{"max_slot_wal_keep_size"},
			silent: []string{viewReady},
			begin: func(s *stage) {
				s.stopBroker()
				s.insert(s.kind, 1)
				keep(s, "8MB")
				for range 12 {
					s.write(1 << 20)
				}
			}, limit: 20 * time.Second, end: func(s *stage) {
				require.NoError(s, s.paste([]string{
					"ALTER SYSTEM SET max_slot_wal_keep_size = '1GB';", "SELECT pg_reload_conf();",
				}))
				s.startBroker()
			},
		},
		{
			name: "slot lost", words: []string{"slot"},
			remedy: []string{"cdc-outbox slot recreate --yes-lose-events", "cdc-outbox repair"},
			begin: func(s *stage) {
				s.stopBroker()
				s.insert(s.kind, 1)
				keep(s, "2MB")
				for range 8 {
					s.write(1 << 20)
				}
				s.superuser("CHECKPOINT")
				s.startBroker()
			}, limit: 20 * time.Second,
		},
		{
			name: "600,000 rows in one transaction", words: []string{"large transaction"},
			silent: []string{viewReady, viewCheck, viewSlot, viewLog, viewStatus},
			begin: func(s *stage) {
				s.db.Exec(s, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type) SELECT '`+s.kind+
					`', (g % 5000)::text, 'e' FROM generate_series(1, 600000) g`)
			}, slow: true, end: func(*stage) {},
		},
	}
}
