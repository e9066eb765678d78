//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/rabbitserver"
)

// rabbitRig is a connector's surroundings with a server of its own, on which there is no exchange.
func rabbitRig(t *testing.T) (*rig, *rabbitserver.Server) {
	db := testkit.Postgres(t)
	emptyTable(t, db)
	s := rabbitserver.Start(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &rig{T: t, db: db, began: time.Now(), env: map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_SINK": "rabbitmq",
		"CDC_OUTBOX_RABBITMQ_ADDRESSES": s.Addr(), "CDC_OUTBOX_RABBITMQ_USERNAME": "guest",
		"CDC_OUTBOX_RABBITMQ_PASSWORD": "guest", "CDC_OUTBOX_RABBITMQ_HEARTBEAT": "5s",
		"CDC_OUTBOX_ROUTER_TOPIC": "outbox.${aggregate_type}", "CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": "letters",
		"CDC_OUTBOX_MONITOR_INTERVAL": "1s", "CDC_OUTBOX_HTTP_STALL": "2s",
	}}, s
}

// rabbitBind declares an exchange with a quorum queue of its name, which takes all messages.
func rabbitBind(t *testing.T, s *rabbitserver.Server, exchange string) *amqp.Channel {
	t.Helper()
	ch := s.Channel(t)
	require.NoError(t, ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	_, err := ch.QueueDeclare(exchange, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(exchange, "#", exchange, false, nil))
	return ch
}

// rabbitLoad commits events of a few keys, numbered by key, and rolls some back, until stop, which returns how many
// were committed.
func rabbitLoad(t *testing.T, dsn string) (stop func() map[string]int) {
	const keys = 4
	var ending atomic.Bool
	var writers errgroup.Group
	written := make([]int, keys)
	for key := range keys {
		conn := connect(t, dsn)
		writers.Go(func() error {
			for n := 1; !ending.Load(); n++ {
				end := "COMMIT"
				if n%10 == 0 {
					end = "ROLLBACK"
				}
				_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN;
					INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
					VALUES ('order', 'k%d', '%s', '%d'); SELECT pg_sleep(0.02); %s`, key, end, written[key]+1, end))
				if err != nil {
					return err
				}
				if end == "COMMIT" {
					written[key]++
				}
			}
			return nil
		})
	}
	return func() map[string]int {
		ending.Store(true)
		require.NoError(t, writers.Wait())
		all := map[string]int{}
		for key, n := range written {
			require.Greater(t, n, 50)
			all["k"+strconv.Itoa(key)] = n
		}
		return all
	}
}

// requireRabbitOrder requires that the queue has each event, in the order of its key, in which a repeat is a rewind,
// and nothing that was rolled back. The last message of a key is its newest event.
func requireRabbitOrder(t *testing.T, s *rabbitserver.Server, written map[string]int) {
	t.Helper()
	newest, last, repeats, seen, jumps := map[string]int{}, map[string]int{}, 0, map[string]bool{}, []string{}
	for _, m := range s.Messages(t, "outbox.order") {
		key := m.Headers["outbox-key"].(string)
		n, err := strconv.Atoi(string(m.Body))
		require.NoError(t, err)
		if n > last[key]+1 {
			jumps = append(jumps, fmt.Sprintf("%s: event %d after event %d", key, n, last[key]))
		}
		if n <= newest[key] {
			repeats++
		}
		newest[key], last[key], seen[key+" "+string(m.Body)] = max(newest[key], n), n, true
		require.Equal(t, []any{"COMMIT", key, m.Headers["id"]}, []any{m.Type, m.RoutingKey, m.MessageId})
	}
	missing := 0
	for key, all := range written {
		for n := range all {
			if !seen[fmt.Sprint(key, " ", n+1)] {
				missing++
			}
		}
	}
	require.Zero(t, missing, "events are missing; %v", jumps)
	require.Empty(t, jumps)
	require.Equal(t, written, newest)
	require.Equal(t, written, last, "the last message of a key is its newest event")
	t.Logf("%v, %d repeats", newest, repeats)
}

// The connector is killed under load, another one takes the slot over, and the server is killed and started again.
func TestRabbitMQLosesNothing(t *testing.T) {
	t.Parallel()
	r, s := rabbitRig(t)
	rabbitBind(t, s, "outbox.order")
	relays := []interface{ Kill() }{r.start(), r.launch()}
	stop := rabbitLoad(t, r.db.DSN)
	for round := range soak(20, 4) {
		//waits:ok the load runs in between
		time.Sleep(700 * time.Millisecond)
		if round%2 == 1 {
			s.Kill()
		}
		relays[round%2].Kill()
		relays[round%2] = r.launch()
		if round%2 == 1 {
			s.Up(t)
		}
	}
	written := stop()
	r.awaitConfirmed()
	requireRabbitOrder(t, s, written)
}

// A connector is frozen under load until another one has published in its place, and thaws with messages in hand. The
// other one waits for the queue of the slot, until the server has closed the frozen one's connection.
func TestRabbitMQFrozenInstance(t *testing.T) {
	t.Parallel()
	r, s := rabbitRig(t)
	r.db.Exec(t, "ALTER DATABASE "+r.db.Name+" SET wal_sender_timeout = '2s'")
	r.env["CDC_OUTBOX_RABBITMQ_HEARTBEAT"] = "2s"
	rabbitBind(t, s, "outbox.order")
	instances := []*process.Process{r.start(), r.launch()}
	stop := rabbitLoad(t, r.db.DSN)
	published := func(p *process.Process) float64 {
		st, err := p.Status()
		if err != nil {
			return 0
		}
		n, _ := st["counts"].(map[string]any)["published"].(float64)
		return n
	}
	for round := range soak(6, 1) {
		frozen, other := instances[round%2], instances[1-round%2]
		before := published(frozen)
		until(t, patience, 20*time.Millisecond, func() (bool, string) {
			return published(frozen) > before, "the connector publishes nothing"
		})
		before = published(other)
		require.NoError(t, frozen.Signal(syscall.SIGSTOP))
		until(t, patience, 20*time.Millisecond, func() (bool, string) {
			return published(other) > before, "the other one publishes nothing: " + other.LogTail(2)
		})
		require.NoError(t, frozen.Signal(syscall.SIGCONT))
	}
	written := stop()
	r.awaitConfirmed()
	requireRabbitOrder(t, s, written)
}

// A stranger's faults with sink: rabbitmq: each has its cause in /readyz, and ends with what is printed. Commands that
// would read the queues say why they do not.
func TestRabbitMQFaults(t *testing.T) {
	t.Parallel()
	r, s := rabbitRig(t)
	p := r.start()
	out, said := r.command(0, "check")
	require.Contains(t, out+said, "promised reading")
	require.Contains(t, out, "A connector that runs has it.")
	for _, args := range [][]string{
		{"find", "4711"},
		{"repair"},
		{"repair", "--ghosts"},
		{"dead-letter", "list"},
		{"replay", "--since", "2030-01-01T00:00:00Z"},
	} {
		_, said := r.command(2, args...)
		require.Contains(t, said, "docs/rabbitmq.md", args)
	}
	insert := func(headers, payload string) {
		r.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers)
			VALUES ('order', 'k', 'x', %s, '%s')`, payload, headers))
	}
	waits := func(text ...string) {
		t.Helper()
		awaitNotReady(t, p, patience, text...)
	}
	insert(`{}`, `'{}'`)
	waits(`exchange "outbox.order"`, "it does not exist")
	ch := s.Channel(t)
	require.NoError(t, ch.ExchangeDeclare("outbox.order", "topic", true, false, false, false, nil))
	waits("no queue takes a message")
	rabbitBind(t, s, "outbox.order")
	require.NoError(t, p.Ready(r.within(patience)))
	r.awaitConfirmed()

	s.Kill()
	insert(`{}`, `'{}'`)
	waits("no connection to RabbitMQ")
	s.Up(t)
	require.NoError(t, p.Ready(r.within(patience)))
	r.awaitConfirmed()

	insert(`{"CC": "all"}`, `'{}'`)
	insert(`{}`, `jsonb_build_object('pad', repeat('x', 5000000))`)
	waits("would be an instruction to the server")
	p.Kill()
	rabbitBind(t, s, "letters")
	p = r.start(map[string]string{"CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter"})
	r.awaitConfirmed()
	reasons := []string{}
	for _, m := range s.Messages(t, "letters") {
		reasons = append(reasons, fmt.Sprint(m.RoutingKey, " ", m.Headers["cdc-outbox-reason"]))
	}
	require.Equal(t, []string{"letters invalid_record", "letters too_large"}, reasons)
	out, _ = r.command(0, "status", "--json")
	require.Contains(t, out, "reading a queue would take its messages away")
}
