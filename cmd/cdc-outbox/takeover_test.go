package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var deleteCommand = regexp.MustCompile(`-c "(DELETE [^"]+)"`)

// The slot and the publication of a Debezium that is stopped are taken over with the translated configuration, given
// back, and taken over once more, with and without the table that remembers the slot's position.
func TestTakeoverAndBack(t *testing.T) {
	t.Parallel()
	for _, remembers := range []bool{false, true} {
		t.Run(fmt.Sprintf("remembers=%v", remembers), func(t *testing.T) {
			r := newDebeziumRig(t)
			db := r.db
			db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
				aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)`)
			db.Exec(t, "CREATE TABLE heartbeat (at timestamptz)")
			db.Exec(t, "CREATE PUBLICATION "+db.Publication+" FOR ALL TABLES")
			db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Slot+"', 'pgoutput')")
			rows := 0
			insert := func(n int) {
				for range n {
					rows++
					db.Exec(t, fmt.Sprintf(`INSERT INTO outbox
						VALUES ('00000000-0000-4000-8000-%012d', 'Order', '%d', 'Created', '{"n": %d}'); INSERT INTO
							heartbeat VALUES (now())`, rows, rows, rows))
				}
			}
			debezium := func() { // reads as Debezium does, and moves the slot
				db.Exec(t, fmt.Sprintf("SELECT pg_logical_slot_get_binary_changes('%s', NULL, NULL, 'proto_version', "+
					"'1', 'publication_names', '%s')", db.Slot, db.Publication))
			}
			insert(2)
			debezium()

			report, file := r.translated()
			env := []string{"CDC_OUTBOX_MONITOR_INTERVAL=200ms"}
			if remembers {
				require.Equal(t, 0, invoke(t, env, "setup", "--config", file).code)
			}
			res := invoke(t, env, "check", "--config", file)
			require.Equal(t, 0, res.code, res.all())
			insert(3) // committed while no process reads
			c := start(t, env, "--config", file)
			c.awaitReady(http.StatusOK)
			insert(2)
			require.NoError(t, r.kafka.Await(t.Context(), 5, "outbox.event.Order"))
			require.Equal(t, 0, c.stop(syscall.SIGTERM))

			insert(4)
			debezium()
			insert(2)
			if remembers {
				res = invoke(t, append(env, "CDC_OUTBOX_HTTP_LISTEN=127.0.0.1:0"), "run", "--config", file)
				require.Equal(t, 3, res.code, res.all())
				var sql string
				for _, step := range report.Rollback {
					for _, command := range step.Commands {
						if found := deleteCommand.FindStringSubmatch(command); found != nil {
							sql = found[1]
						}
					}
				}
				require.NotEmpty(t, sql, "the rollback removes the checkpoint")
				db.Exec(t, sql)
			}
			c = start(t, env, "--config", file)
			c.awaitReady(http.StatusOK)
			require.NoError(t, r.kafka.Await(t.Context(), 7, "outbox.event.Order"))
			require.Equal(t, 0, c.stop(syscall.SIGTERM))
			var keys []string
			for _, rec := range r.read("outbox.event.Order") {
				keys = append(keys, string(rec.Key))
			}
			slices.SortFunc(keys, func(a, b string) int { return len(a) - len(b) })
			require.ElementsMatch(t, []string{"3", "4", "5", "6", "7", "12", "13"}, keys,
				"each once; the others were Debezium's")
		})
	}
}

type takeoverReport struct {
	Config   string
	Rollback []struct{ Commands []string }
}

// translated has the configuration of a Debezium at the rig's servers translated.
func (r *badRig) translated() (*takeoverReport, string) {
	pg, err := pgx.ParseConfig(r.db.DSN)
	require.NoError(r, err)
	dir := r.TempDir()
	connector := filepath.Join(dir, "connector.json")
	text, err := json.Marshal(map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "srv",
		"plugin.name": "pgoutput", "database.hostname": pg.Host, "database.port": portText(pg.Port),
		"database.user": pg.User, "database.password": canary, "database.dbname": pg.Database,
		"slot.name": r.db.Slot, "publication.name": r.db.Publication, "table.include.list": "public.outbox",
		"key.converter":                       "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":                     "org.apache.kafka.connect.storage.StringConverter",
		"producer.override.bootstrap.servers": strings.Join(r.broker.Addrs(), ","),
		"transforms":                          "outbox",
		"transforms.outbox.type":              "io.debezium.transforms.outbox.EventRouter",
	})
	require.NoError(r, err)
	require.NoError(r, os.WriteFile(connector, text, 0o600))
	res := invoke(r.T, nil, "migrate", "debezium", connector, "--json")
	require.Equal(r, 0, res.code, res.all())
	require.NotContains(r, res.all(), canary)
	var report takeoverReport
	require.NoError(r, json.Unmarshal([]byte(res.stdout), &report))
	file := filepath.Join(dir, "cdc-outbox.yaml")
	require.NoError(r, os.WriteFile(file, []byte(report.Config), 0o600))
	return &report, file
}
