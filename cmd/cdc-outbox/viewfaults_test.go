package main

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// viewFault is a fault, and what every view says of it.
type viewFault struct {
	name   string
	code   string            // of the cause
	says   string            // in each view, verbatim
	logs   string            // in the log instead
	alert  string            // that fires about it, empty: none does, or not within a minute
	server *postgres.Options // one of its own; nil: the shared one
	before func(*viewBed)    // the fault is there before the relay starts
	begin  func(*viewBed)
	end    func(*viewBed) // nil: the commands do it
	byHand bool           // the commands only look
	only   int            // the commands are alternatives, and this one is tried, from 1
}

func viewFaults() []viewFault {
	all := append(viewsOfKafka(), viewsOfRows()...)
	all = append(all, viewsOfServers()...)
	return append(all, viewsOfSlots()...)
}

func (v *viewBed) order() { v.db.Exec(v, insertOneOrder) }

// instead replaces the broker by something else at its address. It is ended by the next up.
func (v *viewBed) instead(more ...kfake.Opt) {
	v.broker.Close()
	v.up(more...)
	v.order()
}

// mute takes connections at the broker's address until the returned function is called, and answers nothing. Where it
// hangs up, it is a broker that does not understand what it is sent.
func (v *viewBed) mute(hangsUp bool) (end func()) {
	l, err := net.Listen("tcp", v.address)
	require.NoError(v, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if hangsUp { // with all read, so that the end is not a reset
				_, _ = c.Read(make([]byte, 1<<14))
				_ = c.Close()
			}
			defer c.Close()
		}
	}()
	return func() { _ = l.Close() }
}

// certified has the broker encrypt, with a certificate that it writes to a file.
func (v *viewBed) certified(ca string) kfake.Opt {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(v, os.WriteFile(ca, text, 0o600))
	return kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates})
}

func viewsOfKafka() []viewFault {
	var hung, deaf func()
	var encryption kfake.Opt
	again := func(v *viewBed) { v.broker.Close(); v.up() }
	return []viewFault{
		{
			name: "broker refuses connections", code: "broker_unreachable", says: "refuses connections",
			begin: func(v *viewBed) { v.broker.Close(); v.order() }, end: func(v *viewBed) { v.up() },
		},
		{
			name: "broker hangs", code: "broker_unreachable", says: "does not answer within 10 s",
			begin: func(v *viewBed) { v.broker.Close(); hung = v.mute(false); v.order() },
			end:   func(v *viewBed) { hung(); v.up() },
		},
		{
			name: "broker expects TLS", code: "broker_unreachable", says: "the connection",
			begin: func(v *viewBed) { v.instead(v.certified(filepath.Join(v.TempDir(), "ca.pem"))) }, end: again,
		},
		{
			name: "relay expects TLS", code: "not_authenticated", says: "the connection",
			before: func(v *viewBed) {
				v.order()
				ca := filepath.Join(v.TempDir(), "ca.pem")
				encryption = v.certified(ca)
				v.env = append(v.env, "CDC_OUTBOX_KAFKA_TLS_ENABLED=true", "CDC_OUTBOX_KAFKA_TLS_CA="+ca)
				v.broker.Close()
				deaf = v.mute(true)
			},
			begin: func(*viewBed) {},
			end:   func(v *viewBed) { deaf(); v.up(encryption) },
		},
		{
			name: "broker expects a login", code: "broker_unreachable", says: "the connection",
			begin: func(v *viewBed) { v.instead(kfake.EnableSASL(), kfake.Superuser("PLAIN", "a", "b")) }, end: again,
		},
		{
			name: "topic missing", code: "topic_missing", says: "The topic does not exist",
			begin: func(v *viewBed) { v.db.Exec(v, strings.ReplaceAll(insertOneOrder, "'orders'", "'other'")) },
		},
	}
}

const insertLargeOrder = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
	SELECT 'orders', '1', 'created', jsonb_build_object('x', string_agg(md5(g::text), ''))
	FROM generate_series(1, 80000) g`

func viewsOfRows() []viewFault {
	large := viewFault{
		code: "bad_row", says: `is larger than topic "orders.events" allows`, alert: "row_halted",
		begin: func(v *viewBed) { v.db.Exec(v, insertLargeOrder) },
	}
	passed, raised := large, large
	passed.name, passed.only = "row too large, passed", 1
	raised.name, raised.only = "row too large, limit raised", 2
	return []viewFault{passed, raised, {
		name: "row that is not routable", code: "bad_row", says: "a topic name consists of letters",
		alert: "row_halted", begin: func(v *viewBed) { v.db.Exec(v, insertBadOrder) },
	}, {
		name: "paused", code: "paused", says: "paused by postgres", logs: "paused by an operator",
		begin: func(v *viewBed) {
			require.Equal(v, 0, invoke(v.T, v.env, "pause", "--reason", "maintenance").code)
		},
	}}
}

func viewsOfServers() []viewFault {
	return []viewFault{
		{
			name: "Postgres away", code: "postgres_unreachable", says: "connection refused", byHand: true,
			server: &postgres.Options{},
			begin:  func(v *viewBed) { require.NoError(v, v.db.Stop(v.Context(), postgres.Fast)) },
			end:    func(v *viewBed) { require.NoError(v, v.db.Start(v.Context())) },
		},
		{
			name: "Postgres refuses the login", code: "not_streaming", says: "is not permitted to log in",
			before: func(v *viewBed) {
				v.db.Exec(v, "CREATE ROLE "+v.db.Name+" SUPERUSER LOGIN")
				dsn := strings.Replace(v.db.DSN, "postgres@", v.db.Name+"@", 1)
				v.env = append(v.env, "CDC_OUTBOX_POSTGRES_DSN="+dsn)
			},
			begin: func(v *viewBed) {
				v.relay.awaitReady(http.StatusOK)
				v.db.Exec(v, "ALTER ROLE "+v.db.Name+" NOLOGIN")
				v.endReaders()
			},
		},
		{
			name: "table out of the publication", code: "needs_operator", says: "It is not in publication",
			alert: "connector_stopped",
			begin: func(v *viewBed) { v.db.Exec(v, "ALTER PUBLICATION "+v.db.Publication+" DROP TABLE outbox") },
		},
		{
			// The walsender or a query of the catalog comes first, and the alert may fire with either's words.
			name: "publication dropped", code: "needs_operator", says: "It no longer exists, while slot",
			logs: "exist", alert: "connector_stopped",
			begin: func(v *viewBed) { v.db.Exec(v, "DROP PUBLICATION "+v.db.Publication) },
		},
		{
			name: "table dropped", code: "needs_operator", says: "There is no such table", alert: "connector_stopped",
			begin: func(v *viewBed) { v.db.Exec(v, "DROP TABLE outbox") },
		},
	}
}

// endReaders ends the sessions that read a slot of the database.
func (v *viewBed) endReaders() {
	v.db.Exec(v, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "+
		"WHERE active_pid IS NOT NULL AND database = current_database()")
}

// dropSlot drops the slot under the relay, which takes it again whenever it is ended.
func (v *viewBed) dropSlot() {
	conn, err := v.db.Server.Connect(v.Context(), v.db.Name)
	require.NoError(v, err)
	defer conn.Close(v.Context())
	require.Eventually(v, func() bool {
		v.endReaders()
		_, err := conn.Exec(v.Context(), "SELECT pg_drop_replication_slot('"+v.db.Slot+"')")
		return err == nil
	}, time.Minute, time.Millisecond)
}

// write writes so many megabytes of WAL.
func (v *viewBed) write(megabytes string) {
	v.db.Exec(v, "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) "+
		"FROM generate_series(1, "+megabytes+")")
}

// small is a server on which a slot is lost within seconds, if it is limited.
func small() *postgres.Options {
	return &postgres.Options{WALSegment: 1, Settings: map[string]string{"max_wal_size": "1GB", "min_wal_size": "2MB"}}
}

func (v *viewBed) limit(size string) {
	v.db.Exec(v, "ALTER SYSTEM SET max_slot_wal_keep_size = '"+size+"'")
	v.db.Exec(v, "SELECT pg_reload_conf()")
}

const creationWaits = "creating it waits for transactions that are open"

func viewsOfSlots() []viewFault {
	var open *pgx.Conn
	var holder *running
	fresh := func(v *viewBed) {
		v.db.Exec(v, "SELECT pg_drop_replication_slot('"+v.db.Slot+"')")
		v.db.Exec(v, "DROP PUBLICATION "+v.db.Publication)
		v.db.Exec(v, "DELETE FROM cdc_outbox_slots")
	}
	return []viewFault{
		{
			name: "slot dropped", code: "slot_missing", says: "It no longer exists, while publication",
			alert: "connector_stopped", begin: (*viewBed).dropSlot,
		},
		{
			name: "slot near its limit", code: "broker_unreachable", says: "refuses connections",
			alert: "slot_unreserved", server: small(), byHand: true,
			begin: func(v *viewBed) {
				v.broker.Close()
				v.order()
				v.limit("8MB")
				v.write("12")
			}, end: func(v *viewBed) { v.up() },
		},
		{
			name: "slot lost", code: "slot_lost", says: "Postgres has invalidated it", alert: "connector_stopped",
			server: small(),
			begin: func(v *viewBed) {
				v.broker.Close()
				v.order()
				v.limit("4MB")
				v.write("12")
				v.db.Exec(v, "CHECKPOINT")
				v.up()
			},
		},
		{
			name: "a prepared transaction when the slot is created", code: "not_streaming", says: creationWaits,
			logs: "creating the slot waits", server: &postgres.Options{}, only: 1,
			before: func(v *viewBed) {
				fresh(v)
				v.db.Exec(v, `BEGIN; CREATE TABLE held (x int); PREPARE TRANSACTION 'nightly'`)
			}, begin: func(*viewBed) {},
		},
		{
			name: "an open transaction when the slot is created", code: "not_streaming", says: creationWaits,
			logs: "creating the slot waits", server: &postgres.Options{},
			before: func(v *viewBed) {
				fresh(v)
				var err error
				open, err = v.db.Connect(v.Context(), v.db.Name)
				require.NoError(v, err)
				_, err = open.Exec(v.Context(), "BEGIN; CREATE TABLE held (x int)")
				require.NoError(v, err)
			}, begin: func(*viewBed) {},
		},
		{
			name: "another instance holds the slot", code: "standby", says: "backend", logs: "waiting for the slot",
			before: func(v *viewBed) { holder = start(v.T, v.env); holder.awaitReady(http.StatusOK) },
			begin:  func(*viewBed) {},
			end:    func(v *viewBed) { require.Equal(v, 0, holder.stop(syscall.SIGTERM)) },
		},
	}
}
