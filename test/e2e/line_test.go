//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// A broker on a connection far too slow for the load: the window fills up, and meanwhile the sessions to Postgres,
// which would end after 5 s of silence, go on.
func TestBrokerSlow(t *testing.T) {
	_, broker := sharedKafka(t)
	all := startRelays(t, surroundings{
		walSenderTimeout: "5s", env: map[string]string{"CDC_OUTBOX_WINDOW_RECORDS": "500"},
	}, oracle.Load{})
	all.written(200)
	before := make([]session, len(all))
	for i, r := range all {
		before[i] = r.session()
	}
	t.Cleanup(func() {
		broker.SetShape(proxy.Up, proxy.Shape{})
		broker.SetShape(proxy.Down, proxy.Shape{})
	})
	broker.SetShape(proxy.Up, proxy.Shape{Bandwidth: 25_000, Latency: 150 * time.Millisecond})
	broker.SetShape(proxy.Down, proxy.Shape{Latency: 150 * time.Millisecond})
	began := time.Now()
	fullest := make([]float64, len(all))
	full := func() bool { return slices.Min(fullest) >= 490 }
	// On a slow machine the writers take longer to fill it.
	for time.Since(began) < soak(30*time.Second, 8*time.Second) || !full() && time.Since(began) < patience {
		time.Sleep(200 * time.Millisecond) //waits:ok the pause between two samples of a fault that lasts
		for i, r := range all {
			in, err := r.p.Metric("cdc_outbox_window_records")
			require.NoError(t, err)
			fullest[i] = max(fullest[i], in)
		}
	}
	for i, r := range all {
		now := r.session()
		t.Logf("%s: %.0f of 500 records in the window at most; confirmed meanwhile: %v; last status "+
			"update %v ago", r.name, fullest[i], now.confirmed-before[i].confirmed, now.silent)
		require.True(t, full(), "the line was too fast to fill the window")
		require.Equal(t, before[i].pid, now.pid, "%s: the session to Postgres survives", r.name)
		require.Less(t, now.silent, 5*time.Second)
	}
	broker.SetShape(proxy.Up, proxy.Shape{})
	broker.SetShape(proxy.Down, proxy.Shape{})
	all.catchUp("the line is fast again", time.Now())
	all.once()
}

// session is the walsender that serves the slot.
type session struct {
	pid       int
	silent    time.Duration // since the last status update
	confirmed oracle.LSN
}

func (r *rig) session() (s session) {
	r.Helper()
	var seconds float64
	var confirmed int64
	conn := connect(r.T, r.db.DSN)
	until(r.T, patience, 50*time.Millisecond, func() (bool, string) { // there is no reply_time before the first reply
		err := conn.QueryRow(r.Context(),
			`SELECT s.active_pid, extract(epoch FROM clock_timestamp() - r.reply_time)::float8,
				(s.confirmed_flush_lsn - '0/0')::bigint
			FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
			WHERE s.slot_name = $1 AND r.reply_time IS NOT NULL`,
			r.db.Slot).Scan(&s.pid, &seconds, &confirmed)
		return err == nil, fmt.Sprint("no session: ", err)
	})
	s.silent, s.confirmed = time.Duration(seconds*float64(time.Second)).Round(time.Millisecond), oracle.LSN(confirmed)
	return s
}

// The only broker freezes, and the connections to it break meanwhile. When it thaws it first reads what lies in its
// sockets: requests that were given up and have been sent again, maybe already after newer requests.
func TestBrokerFrozen(t *testing.T) {
	c, broker := sharedKafka(t)
	all := startRelays(t, surroundings{}, oracle.Load{})
	for range soak(5, 2) {
		all[0].pause(500*time.Millisecond, 1500*time.Millisecond)
		require.NoError(t, c.Brokers[0].Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = c.Brokers[0].Signal(syscall.SIGCONT) })
		time.Sleep(soak(15*time.Second, 2*time.Second)) //waits:ok the fault lasts
		broker.Reset()
		time.Sleep(soak(15*time.Second, 2*time.Second)) //waits:ok the fault lasts
		began := time.Now()
		require.NoError(t, c.Brokers[0].Signal(syscall.SIGCONT))
		all.catchUp("thawed", began)
	}
	abandoned := all.retried("CONNECTION_LOST")
	t.Logf("%d batches were abandoned with their connection and sent again", abandoned)
	require.Positive(t, abandoned)
	all.once()
}

// A topic is deleted under load and re-created: its old records are deleted with it, and everything that was not in it
// goes to the new one.
func TestBrokerTopicRecreatedUnderLoad(t *testing.T) {
	c, broker := sharedKafka(t)
	r := newRig(t, surroundings{env: map[string]string{"CDC_OUTBOX_HTTP_STALL": "2s"}})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	t.Cleanup(func() { writers.Stop() })
	topic := r.oracle.Topics()[0]
	t.Cleanup(func() { broker.SetShape(proxy.Up, proxy.Shape{}) })
	for range soak(5, 1) {
		r.pause(500*time.Millisecond, 1500*time.Millisecond)
		// No request reaches the broker while the topic is read: what it holds then is what dies with it.
		broker.SetShape(proxy.Up, proxy.Shape{Stalled: true})
		settled(t, func() int64 { // what has reached the broker is appended
			n, err := c.Count(r.within(patience), topic)
			require.NoError(t, err)
			return n
		})
		require.NoError(t, r.oracle.Archive(r.within(patience), topic))
		r.deleteTopic(topic)
		broker.SetShape(proxy.Up, proxy.Shape{})
		t.Logf("not ready: %s", awaitNotReady(t, p, patience, topic))
		began := time.Now()
		require.NoError(t, c.Create(r.within(patience), kafkaclient.Topic{Name: topic, Partitions: 3}))
		require.NoError(t, r.oracle.AwaitCaughtUp(r.within(patience)))
		t.Logf("re-created: confirmed again after %v", time.Since(began).Round(10*time.Millisecond))
	}
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	t.Logf("duplicates: %d (the new topic does not know the sequences, so they would "+
		"be allowed)", r.verdict().Duplicates)
}

// deleteTopic deletes a topic and waits until the broker knows of it. Until then it takes records, which go with the
// topic.
func (r *rig) deleteTopic(name string) {
	r.Helper()
	require.NoError(r, r.kafka.Delete(r.within(patience), name))
	r.loses = true
	until(r.T, patience, 20*time.Millisecond, func() (bool, string) {
		found, err := r.kafka.Admin().ListTopics(r.Context(), name)
		return err == nil && !found.Has(name), fmt.Sprintf("topic %s is still there (%v)", name, err)
	})
}

// The same with transactions: what was written while the topic was missing is in the new one, once.
func TestBrokerTopicRecreatedWithTransactions(t *testing.T) {
	t.Parallel()
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	r.env["CDC_OUTBOX_DELIVERY"], r.env["CDC_OUTBOX_HTTP_STALL"] = "exactly_once", "2s"
	p := r.start()
	for round := range soak(5, 2) {
		r.insert(kind, 1000)
		r.awaitPublished(p, 2000*round+1000)
		r.deleteTopic(topic)
		r.insert(kind, 1000)
		t.Logf("not ready: %s", awaitNotReady(t, p, patience, topic))
		began := time.Now()
		require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: topic, Partitions: 3}))
		r.awaitPublished(p, 2000*(round+1))
		t.Logf("re-created: published after %v", time.Since(began).Round(10*time.Millisecond))
		reader, err := r.kafka.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		require.NoError(t, err)
		records, err := reader.Read(r.within(patience), topic)
		reader.Close()
		require.NoError(t, err)
		require.Len(t, records, 1000)
		seen := map[string]bool{}
		for _, rec := range records {
			require.True(t, strings.Contains(string(rec.Value), `"n"`))
			seen[fmt.Sprint(oracle.RecordOf(rec).ID)] = true
		}
		require.Len(t, seen, 1000)
	}
}
