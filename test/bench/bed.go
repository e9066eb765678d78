package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// bed is what the contenders lie on: one Postgres with the rows in its WAL, one Kafka broker.
type bed struct {
	postgres *postgres.Server
	conn     *pgx.Conn // superuser, for slots, load and figures
	dsn      string
	kafka    *kafka.Cluster
	brokers  string // bootstrap addresses

	rows int
	end  string // LSN after the load
	wal  string // size of the load, for people
	want *expectation
}

const kafkaVersion = "4.1.0"

func makeBed(ctx context.Context, rows int) (*bed, error) {
	b := &bed{rows: rows}
	if err := b.start(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) start(ctx context.Context) (err error) {
	if b.postgres, b.conn, err = startPostgres(ctx); err != nil {
		return err
	}
	b.dsn = b.postgres.DSN("postgres")
	return b.startKafka(ctx)
}

// startPostgres gives Postgres room: no checkpoint and no autovacuum in the middle of a contender's pass. Also with an
// error, a server that is returned is the caller's to close.
func startPostgres(ctx context.Context) (*postgres.Server, *pgx.Conn, error) {
	server, err := postgres.Start(ctx, postgres.Options{Settings: map[string]string{
		"max_wal_size": "64GB", "checkpoint_timeout": "1h", "autovacuum": "off", "shared_buffers": "512MB",
		"max_replication_slots": "100",
	}})
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err != nil {
		return server, nil, err
	}
	_, err = conn.PgConn().Exec(ctx, schema).ReadAll()
	return server, conn, err
}

func (b *bed) close() {
	if b.kafka != nil {
		_ = b.kafka.Close() // temporary directories are swept by the next run
	}
	if b.conn != nil {
		_ = b.conn.Close(context.Background())
	}
	if b.postgres != nil {
		_ = b.postgres.Close()
	}
}

func (b *bed) createSlot(ctx context.Context, slot string) error {
	_, err := b.conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot)
	return err
}

func (b *bed) createTopics(ctx context.Context, topics []string) error {
	var list []kafkaclient.Topic
	for _, t := range topics {
		list = append(list, kafkaclient.Topic{Name: t, Partitions: partitions})
	}
	return b.kafka.Create(ctx, list...)
}

// refill empties the table, creates the slots at the end of the log and loads again.
func (b *bed) refill(ctx context.Context, l workload, slots []string) (time.Duration, error) {
	for _, sql := range []string{
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots", "TRUNCATE outbox",
	} {
		if _, err := b.conn.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	for _, slot := range slots {
		if err := b.createSlot(ctx, slot); err != nil {
			return 0, err
		}
	}
	b.rows = l.rows
	return b.fill(ctx, l)
}

// fill loads the table and notes what the contenders are to bring.
func (b *bed) fill(ctx context.Context, l workload) (time.Duration, error) {
	took, err := l.run(ctx, b.conn)
	if err != nil {
		return 0, err
	}
	err = b.conn.QueryRow(ctx,
		`SELECT pg_current_wal_lsn()::text, pg_size_pretty(pg_current_wal_lsn() - min(confirmed_flush_lsn))
		FROM pg_replication_slots`).Scan(&b.end, &b.wal)
	if err != nil {
		return 0, err
	}
	b.want, err = b.expect(ctx)
	return took, err
}

// logSize is how much disk the records of topics take at the brokers: batches lie there as they were sent.
func (b *bed) logSize(topics []string) (size int64) {
	for _, broker := range b.kafka.Brokers {
		for _, topic := range topics {
			pattern := filepath.Join(filepath.Dir(broker.LogPath()), "data", topic+"-*", "*.log")
			files, _ := filepath.Glob(pattern) // fails only for a malformed pattern
			for _, path := range files {
				if info, err := os.Stat(path); err == nil {
					size += info.Size()
				}
			}
		}
	}
	return size
}

// watchWalsender starts to watch the walsender of a slot, over a connection of its own.
func (b *bed) watchWalsender(ctx context.Context, slot string) func() watched {
	return watchAsync(ctx, func(ctx context.Context) watched {
		conn, err := pgx.Connect(ctx, b.dsn)
		if err != nil {
			return watched{}
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return watchWalsender(ctx, conn, slot)
	})
}

// awaitRecords waits until the topics hold every row.
func (b *bed) awaitRecords(ctx context.Context, p *process, topics []string) error {
	return b.awaitCount(ctx, p, int64(b.rows), topics)
}

// awaitCount waits for records, or for the end of the process that should bring them.
func (b *bed) awaitCount(ctx context.Context, p *process, n int64, topics []string) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(errors.New("it ended before all was there"))
		case <-waiting.Done():
		}
	}()
	err := b.kafka.Await(waiting, n, topics...)
	if err != nil {
		p.Kill()
		return fmt.Errorf("%w (%w); the end of its output:\n%s", err, context.Cause(waiting), p.output)
	}
	return nil
}

func (b *bed) startKafka(ctx context.Context) (err error) {
	b.kafka, err = kafka.Start(ctx, inProduction(kafka.Options{Version: kafkaVersion, Heap: "1g"}))
	if err == nil {
		b.brokers = strings.Join(b.kafka.Addrs(), ",")
	}
	return err
}

// inProduction has the broker work as one in production does.
//
// The JVM gets the arguments of Kafka's own start script. The tests' let it start faster, but its compiler does less,
// and its collector stops the broker for some tenths of a second at a time.
//
// The index files are small. A new partition has two of 10 MB, and the kernel fills much of them with zeros at the
// second batch: 180 ms for 36 partitions, in which the broker answers no client. Topics in production are not new.
func inProduction(opts kafka.Options) kafka.Options {
	opts.JVM = []string{
		"-Xms" + opts.Heap, "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:TieredStopAtLevel=4",
	}
	opts.Settings = map[string]string{"log.index.size.max.bytes": "65536"}
	return opts
}
