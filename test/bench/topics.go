package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// topicsBed has rows for many topics in one WAL. A pass sends them to their topics, or all of them to one.
type topicsBed struct {
	postgres *postgres.Server
	conn     *pgx.Conn
	kafka    *kafka.Cluster
	rows     int
	topics   int
}

// topicsLoad inserts rows first..last. The key, of a hundred per topic, is a hash of the row's number, so that keys
// come at random, and a key belongs to one topic.
const topicsLoad = `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
	SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'topic-' || k %% %[1]d, 'id-' || k,
		'Changed', jsonb_build_object('n', n, 'amount', n / 100.0, 'currency', 'EUR', 'note', repeat(md5(n::text), 8))
	FROM (SELECT n, (hashint4(n) & 2147483647) %% (100 * %[1]d) AS k FROM generate_series(%[2]s, %[3]s) AS n) AS rows`

// topicsPass is what one pass brought.
type topicsPass struct {
	elapsed  time.Duration // from the start of the process to the last acknowledgement
	first    int           // records acknowledged a second after the start
	client   watched
	server   watched       // the walsender
	broker   time.Duration // CPU of all brokers
	perBatch float64       // mean number of records
	perReq   float64
}

// manyTopics relays the same rows to one topic and to many topics, each pass a process that knows none of them yet.
func manyTopics(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("topics", flag.ContinueOnError)
	rows := flags.Int("rows", 600_000, "rows to load")
	topics := flags.Int("topics", 1000, "topics of 12 partitions each")
	brokers := flags.Int("brokers", 1, "Kafka brokers")
	perTx := flags.Int("per-tx", 10, "rows per transaction")
	rounds := flags.Int("rounds", 1, "passes each way")
	warmUps := flags.Int("warm-up", 5, "passes each way before one counts")
	delivery := flags.String("delivery", atLeastOnce, "at_least_once or exactly_once")
	more := flags.String("env", "", "one more environment variable for the connector, NAME=VALUE")
	against := flags.String("against", "", "another build of the connector, measured after each pass of this one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	builds := []string{binary}
	if *against != "" {
		builds = append(builds, *against)
	}
	b := &topicsBed{rows: *rows, topics: *topics}
	defer b.close()
	if err := b.start(ctx, *brokers, *warmUps+*rounds*len(builds), *perTx); err != nil {
		return err
	}
	fmt.Printf("%d rows, %d per transaction, %s, %d topics of %d partitions on %d brokers; Kafka %s, %s, %d cores\n\n",
		*rows, *perTx, *delivery, *topics, partitions, *brokers, kafkaVersion, runtime.Version(), runtime.NumCPU())
	fmt.Println("| | rows/s | rows in the first second | client CPU s/M | walsender | Kafka | peak RSS | " +
		"records per batch | per request |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	// The first write to each of thousands of new partitions costs the broker more than the records do, and its
	// compiler takes a part of the cores for some tens of seconds.
	for round := range *warmUps + *rounds*len(builds) {
		build, note := builds[max(round-*warmUps, 0)%len(builds)], ""
		if build != binary {
			note = ", another build"
		}
		for _, n := range []int{1, *topics} {
			slot := fmt.Sprintf("topics_%d_%d", n, round)
			p, err := b.pass(ctx, build, n, slot, *delivery, *more)
			if err != nil {
				return fmt.Errorf("%d topics: %w", n, err)
			}
			if round < *warmUps {
				continue
			}
			million := float64(b.rows) / 1e6
			fmt.Printf("| %d topics%s | %.1f k | %d | %.2f | %.2f | %.2f | %.0f MB | %.1f | %.0f |\n", n, note,
				float64(b.rows)/p.elapsed.Seconds()/1000, p.first, p.client.CPU.Seconds()/million,
				p.server.CPU.Seconds()/million, p.broker.Seconds()/million, float64(p.client.Peak)/1e6, p.perBatch,
				p.perReq)
		}
	}
	return nil
}

// start makes Postgres, Kafka, the slots and the load.
func (b *topicsBed) start(ctx context.Context, brokers, rounds, perTx int) (err error) {
	if b.postgres, b.conn, err = startPostgres(ctx); err != nil {
		return err
	}
	opts := inProduction(kafka.Options{Version: kafkaVersion, Heap: "2g", Brokers: brokers})
	// By default the files of a pass are deleted a minute later, during others.
	opts.Settings["log.segment.delete.delay.ms"] = "1"
	if b.kafka, err = kafka.Start(ctx, opts); err != nil {
		return err
	}
	for _, n := range []int{1, b.topics} {
		if err := b.create(ctx, topicNames(n)); err != nil {
			return err
		}
		for round := range rounds {
			_, err := b.conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')",
				fmt.Sprintf("topics_%d_%d", n, round))
			if err != nil {
				return err
			}
		}
	}
	insert := fmt.Sprintf(topicsLoad, b.topics, "i", fmt.Sprintf("least(i + %d, %d)", perTx-1, b.rows))
	do := fmt.Sprintf(`DO $load$ DECLARE i int := 1; BEGIN
		WHILE i <= %d LOOP %s; COMMIT; i := i + %d; END LOOP; END $load$`, b.rows, insert, perTx)
	for _, sql := range []string{"SET synchronous_commit = off", do} {
		if _, err := b.conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	return nil
}

func (b *topicsBed) close() {
	if b.kafka != nil {
		_ = b.kafka.Close()
	}
	if b.conn != nil {
		_ = b.conn.Close(context.Background())
	}
	if b.postgres != nil {
		_ = b.postgres.Close()
	}
}

// topicNames are the topics of a pass to n of them.
func topicNames(n int) []string {
	if n == 1 {
		return []string{"one.all"}
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("many.topic-%d", i))
	}
	return names
}

// pass relays everything to n topics, verifies it, and empties the topics.
func (b *topicsBed) pass(ctx context.Context, build string, n int, slot, delivery, env string) (
	p topicsPass, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	template, topics := "one.all", topicNames(n)
	if n > 1 {
		template = "many.${aggregate_type}"
	}
	free, err := port.Free()
	if err != nil {
		return p, err
	}
	address := "127.0.0.1:" + strconv.Itoa(free)
	cmd := exec.Command(build, "run")
	cmd.Env = append(os.Environ(),
		"CDC_OUTBOX_POSTGRES_DSN="+b.postgres.DSN("postgres"), "CDC_OUTBOX_POSTGRES_SLOT="+slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION="+publication, "CDC_OUTBOX_KAFKA_BROKERS="+strings.Join(b.kafka.Addrs(), ","),
		"CDC_OUTBOX_ROUTER_TOPIC="+template, "CDC_OUTBOX_HTTP_LISTEN="+address, "CDC_OUTBOX_DELIVERY="+delivery)
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	before := kafkaCPU(b.kafka)
	server := watchAsync(ctx, func(ctx context.Context) watched { return watchWalsender(ctx, b.conn, slot) })
	p, err = b.relay(ctx, cmd, address)
	p.server, p.broker = server(), kafkaCPU(b.kafka)-before
	if err != nil {
		return p, err
	}
	if err := b.verify(ctx, topics); err != nil {
		return p, err
	}
	return p, b.empty(ctx, topics)
}

// empty deletes the records of topics.
func (b *topicsBed) empty(ctx context.Context, topics []string) error {
	ends, err := b.kafka.Ends(ctx, topics...)
	if err != nil {
		return err
	}
	deleted, err := b.kafka.Admin().DeleteRecords(ctx, ends.Offsets())
	if err != nil {
		return err
	}
	if err := deleted.Error(); err != nil {
		return err
	}
	return b.quiet(ctx)
}

// quiet waits until the brokers have deleted the files, and what they and Postgres wrote is on disk.
func (b *topicsBed) quiet(ctx context.Context) error {
	settle()
	const period = time.Second
	for used := period; used > period/10; {
		before := kafkaCPU(b.kafka)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(period):
		}
		used = kafkaCPU(b.kafka) - before
	}
	return nil
}

// create makes the topics in requests of a hundred, and waits until the broker serves every partition. It names itself
// the leader of thousands of partitions seconds before it has made their logs.
func (b *topicsBed) create(ctx context.Context, topics []string) error {
	for from := 0; from < len(topics); from += 100 {
		some := topics[from:min(from+100, len(topics))]
		if _, err := b.kafka.Admin().CreateTopics(ctx, partitions, -1, nil, some...); err != nil {
			return err
		}
	}
	if err := b.kafka.AwaitInSync(ctx); err != nil {
		return err
	}
	for {
		_, err := b.kafka.Ends(ctx, topics...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// relay runs the connector until all is acknowledged.
func (b *topicsBed) relay(ctx context.Context, cmd *exec.Cmd, address string) (r topicsPass, err error) {
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return r, err
	}
	n, pause := 0, 20*time.Millisecond
	for n < b.rows {
		select {
		case <-ctx.Done():
			p.Kill()
			return r, fmt.Errorf("%w at %d rows; the end of its output:\n%s", ctx.Err(), n, p.output)
		case <-p.Done():
			return r, fmt.Errorf("it ended before all was there; the end of its output:\n%s", p.output)
		case <-time.After(pause):
		}
		n = published(ctx, address)
		elapsed := time.Since(p.started)
		if elapsed <= time.Second {
			r.first = n
		}
		pause = untilNext(elapsed, float64(n)/float64(b.rows))
	}
	r.elapsed = time.Since(p.started)
	if err := r.scrape(ctx, address); err != nil {
		p.Kill()
		return r, err
	}
	err = p.stop()
	r.client = p.used()
	return r, err
}

// untilNext is the pause before the next query of /status, which has a line per topic and costs the process a
// millisecond: it queries often only around the first second, and near the end.
func untilNext(elapsed time.Duration, done float64) time.Duration {
	const often, rarely = 20 * time.Millisecond, 300 * time.Millisecond
	if elapsed < time.Second {
		return min(rarely, max(often, time.Second-elapsed-often))
	}
	if done == 0 {
		return rarely
	}
	left := time.Duration(float64(elapsed) * (1 - done) / done)
	return min(rarely, max(often, left/2))
}

// scrape reads the means from /metrics.
func (r *topicsPass) scrape(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	series := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				series[name] = v
			}
		}
	}
	records := series["cdc_outbox_producer_records_per_batch_sum"]
	r.perBatch = records / series["cdc_outbox_producer_records_per_batch_count"]
	r.perReq = records / series["cdc_outbox_producer_request_seconds_count"]
	return lines.Err()
}

// verify reads the topics back: each row once, under its key, and the rows of a key in their order.
func (b *topicsBed) verify(ctx context.Context, topics []string) error {
	seen := make([]bool, b.rows+1)
	last := map[string]int{}
	count := 0
	var problems []error
	complain := func(format string, args ...any) {
		if len(problems) < 5 {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	err := b.kafka.Each(ctx, topics, func(r *kgo.Record) {
		if r.Attrs.IsControl() {
			return
		}
		n, err := rowNumber(header(r, "id"))
		switch {
		case err != nil || n < 1 || n > b.rows:
			complain("%s/%d offset %d: not an event of the load (%v)", r.Topic, r.Partition, r.Offset, err)
			return
		case seen[n]:
			complain("%s/%d offset %d: row %d a second time", r.Topic, r.Partition, r.Offset, n)
			return
		}
		seen[n] = true
		count++
		key := string(r.Key)
		if last[key] > n {
			complain("%s/%d: row %d follows row %d of its key", r.Topic, r.Partition, n, last[key])
		}
		last[key] = n
		id, _ := strconv.Atoi(strings.TrimPrefix(key, "id-"))
		if len(topics) > 1 && !strings.HasSuffix(r.Topic, fmt.Sprintf(".topic-%d", id%b.topics)) {
			complain("%s: row %d under key %q", r.Topic, n, key)
		}
	})
	if err != nil {
		return err
	}
	if count != b.rows {
		complain("%d of %d rows arrived", count, b.rows)
	}
	return errors.Join(problems...)
}
