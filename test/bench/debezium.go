package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

//go:embed debezium/pom.xml
var debeziumPOM []byte

func missingJava() string {
	for _, name := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(name); err != nil {
			return "not run: " + name + " is not installed"
		}
	}
	return ""
}

// passDebezium runs Debezium in a standalone Kafka Connect worker. Its time counts from the first record on, so that
// the start of the JVM is left out of the rate; its CPU cannot be measured apart and includes the start.
func passDebezium(tuning []string) func(context.Context, turn) (result, error) {
	return func(ctx context.Context, t turn) (result, error) {
		dir, err := scratch.NewDir("debezium")
		if err != nil {
			return result{}, err
		}
		defer dir.Remove()
		jars, err := debeziumJars(ctx)
		if err != nil {
			return result{}, err
		}
		files, err := t.debeziumConfig(dir.Path, tuning)
		if err != nil {
			return result{}, err
		}
		cmd := exec.Command("java", append([]string{
			"-cp", filepath.Join(jars, "*"), "org.apache.kafka.connect.cli.ConnectStandalone",
		}, files...)...)
		var first time.Time
		r, err := t.passConnector(ctx, cmd, func(p *process) error {
			if err := t.bed.awaitCount(ctx, p, 1, t.topics()); err != nil {
				return err
			}
			first = time.Now()
			return t.bed.awaitRecords(ctx, p, t.topics())
		})
		r.Taken = first
		return r, err
	}
}

// debeziumTuned is what helps a backlog: larger batches and queues on both sides, and shorter waits between them.
var debeziumTuned = []string{
	"max.batch.size=16384",
	"max.queue.size=65536",
	"poll.interval.ms=10",
	"producer.override.linger.ms=10",
	"producer.override.batch.size=262144",
	"producer.override.buffer.memory=134217728",
}

// debeziumJars fetches the jars once into the cache.
func debeziumJars(ctx context.Context) (string, error) {
	cache, err := scratch.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "bench-debezium")
	jars := filepath.Join(dir, "jars")
	done := filepath.Join(dir, "complete")
	if have, err := os.ReadFile(done); err == nil && string(have) == string(debeziumPOM) {
		return jars, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, debeziumPOM, 0o644); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+jars).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("fetch Debezium with mvn: %w\n%s", err, out)
	}
	return jars, os.WriteFile(done, debeziumPOM, 0o644)
}

// debeziumConfig writes the worker's and the connector's properties: Debezium's defaults, the outbox event router with
// our column names, and converters that pass keys and values through as text, as the product does.
func (t turn) debeziumConfig(dir string, tuning []string) ([]string, error) {
	pg, err := pgx.ParseConfig(t.bed.dsn)
	if err != nil {
		return nil, err
	}
	rest, err := port.Free()
	if err != nil {
		return nil, err
	}
	worker := []string{
		"bootstrap.servers=" + t.bed.brokers,
		"listeners=http://127.0.0.1:" + fmt.Sprint(rest),
		"offset.storage.file.filename=" + filepath.Join(dir, "offsets"),
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter",
	}
	connector := []string{
		"name=bench",
		"connector.class=io.debezium.connector.postgresql.PostgresConnector",
		"topic.prefix=bench",
		"database.hostname=" + pg.Host,
		"database.port=" + fmt.Sprint(pg.Port),
		"database.user=" + pg.User,
		"database.password=unused",
		"database.dbname=" + pg.Database,
		"plugin.name=pgoutput",
		"slot.name=" + t.slot,
		"publication.name=" + publication,
		"publication.autocreate.mode=disabled",
		"table.include.list=public.outbox",
		"snapshot.mode=no_data",
		"transforms=outbox",
		"transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.table.field.event.key=aggregate_id",
		"transforms.outbox.table.field.event.type=event_type",
		"transforms.outbox.route.by.field=aggregate_type",
		"transforms.outbox.route.topic.replacement=" + t.prefix + ".${routedByValue}",
	}
	return writeProperties(dir, worker, append(connector, tuning...))
}

// writeProperties writes one file per list and returns their names in that order, which is that of the worker's
// arguments.
func writeProperties(dir string, files ...[]string) ([]string, error) {
	var paths []string
	for i, lines := range files {
		path := filepath.Join(dir, fmt.Sprintf("%d.properties", i))
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
