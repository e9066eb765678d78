//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// What a liar may cost. A process at rest has 40 MiB; a frame of an answer may have 64.
const (
	mostMemory = 300 << 20
	mostDrain  = 15 * time.Second
)

// victim is a connector of which one peer lies.
type victim struct {
	*rig
	peer *proxy.Proxy
	rows int
	what string // the answers that are lied about
	once bool   // no event may be there twice
}

// lieTo has a connector meet one kind of lie when it starts and when it stops, and the truth in between.
func (v *victim) lieTo(kind lies.Kind, about func(proxy.Answer) bool) {
	t := v.T
	t.Helper()
	liar := kind.About(about)
	v.peer.LieWith(liar.Lie)
	began := time.Now()
	p := v.launch()
	v.dwell(p)
	used := p.Usage()
	cpu := float64(used.CPU) / float64(time.Since(began))

	v.peer.LieWith(nil)
	v.peer.Reset()
	began = time.Now()
	if err := p.Ready(v.within(patience)); err != nil {
		// The lie was that an operator is needed, or nothing that Postgres says: a supervisor starts it again.
		require.False(t, p.Running(), err)
		require.Contains(t, []int{1, 3}, p.ExitCode(), "%s, %s: %s", v.what, kind.Name, p.LogTail(20))
		p = v.start()
	}
	v.publish(p)
	again := time.Since(began)

	v.peer.LieWith(liar.Lie)
	v.peer.Reset()
	v.dwell(p)
	began = time.Now()
	if p.Running() {
		if _, err := p.Stop(mostDrain); err != nil {
			_ = p.Signal(syscall.SIGQUIT) // for its goroutines
			_, _ = p.Wait(patience)
			t.Fatalf("%s, %s: after %v: %s", v.what, kind.Name, err, p.Log())
		}
	}
	v.clean(p)
	peak := max(used.PeakRSS, p.Usage().PeakRSS)
	t.Logf("%-20s %-26s %7d lies, peak %3d MiB, %3.0f %% of a core, on after %5.1f s, stops in %4.1f s: %d", v.what,
		kind.Name, liar.Count(), peak>>20, 100*cpu, again.Seconds(), time.Since(began).Seconds(), p.ExitCode())
	require.Less(t, peak, int64(mostMemory), "%s, %s", v.what, kind.Name)
	v.peer.LieWith(nil)
	v.peer.Reset()
	v.awaitSlotFree()
}

// dwell leaves a connector to the liar for a while.
func (v *victim) dwell(p *process.Process) {
	v.Helper()
	v.insertRow()
	//waits:ok what is measured is a time, and it may be that no lie is told
	time.Sleep(soak(3*time.Second, 1500*time.Millisecond))
	v.clean(p)
}

// clean: what a peer says reaches neither log nor page as it is.
func (v *victim) clean(p *process.Process) {
	v.Helper()
	texts := []string{p.Log(), p.Stdout()}
	if p.Running() {
		for _, path := range []string{"/status", "/metrics", "/readyz"} {
			_, text, err := p.Get(path)
			require.NoError(v, err)
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		require.NotContains(v, text, "fatal error")
		require.NotContains(v, text, "panic")
		require.False(v, strings.ContainsAny(text, "\x1b\a\u009b\u202e"), "%s: %q", v.what, text)
	}
}

func (v *victim) insertRow() {
	v.Helper()
	v.rows++
	v.db.Exec(v, fmt.Sprintf(`INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
		VALUES ('00000000-0000-0000-0000-%012x', '%s', 'k', 'e', '1')`, v.rows, v.kind()))
}

// begin lets a connector set itself up with honest servers.
func (v *victim) begin() {
	v.Helper()
	p := v.start()
	v.publish(p)
	_, err := p.Stop(patience)
	require.NoError(v, err)
	v.awaitSlotFree()
}

func (v *victim) kind() string { return v.db.Name }

// publish inserts a row and waits until all rows are in their topic, each once.
func (v *victim) publish(p *process.Process) {
	v.Helper()
	v.insertRow()
	until(v.T, patience, 50*time.Millisecond, func() (bool, string) {
		if !p.Running() {
			return false, "it ended: " + p.LogTail(20)
		}
		records, err := v.kafka.Read(v.within(patience), v.kind()+".events")
		require.NoError(v, err)
		ids := map[string]bool{}
		for _, rec := range records {
			ids[headerOf(rec, "id")] = true
		}
		if v.once {
			require.Len(v, records, len(ids), "an event is there twice")
		}
		return len(ids) == v.rows, fmt.Sprintf("%d of %d rows are in the topic; %s", len(ids), v.rows, p.LogTail(10))
	})
}

// TestLiesOfABroker: whatever a broker answers, the connector's memory is bounded, SIGTERM ends it, nothing that the
// broker says reaches a terminal, and when it is honest again each event is there once.
func TestLiesOfABroker(t *testing.T) {
	asked := []int16{
		kmsg.ApiVersions.Int16(), kmsg.Metadata.Int16(), kmsg.Produce.Int16(), kmsg.InitProducerID.Int16(),
		kmsg.FindCoordinator.Int16(), kmsg.OffsetFetch.Int16(), kmsg.AddPartitionsToTxn.Int16(),
		kmsg.TxnOffsetCommit.Int16(), kmsg.EndTxn.Int16(), kmsg.DescribeConfigs.Int16(), kmsg.Fetch.Int16(),
		kmsg.ListOffsets.Int16(),
	}
	peers := make([]*proxy.Proxy, len(asked))
	var ways []kafka.Listener
	for i := range asked {
		ways = append(ways, kafka.Listener{
			Name: fmt.Sprintf("WAY%d", i), Protocol: "PLAINTEXT", Advertise: func(_ int, addr string) string {
				var err error
				peers[i], err = proxy.Start(addr, proxy.Kafka)
				require.NoError(t, err)
				t.Cleanup(peers[i].Close)
				return peers[i].Addr()
			},
		})
	}
	c := testkit.DedicatedKafka(t, kafka.Options{Listeners: ways})
	committed, err := c.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	t.Cleanup(committed.Close)
	for i, key := range asked {
		t.Run(kmsg.NameForKey(key), func(t *testing.T) {
			t.Parallel()
			db := testkit.Postgres(t)
			emptyTable(t, db)
			topic := kafkaclient.Topic{Name: db.Name + ".events", Partitions: 1}
			require.NoError(t, c.Create(within(t, patience), topic))
			v := &victim{once: true, peer: peers[i], what: kmsg.NameForKey(key), rig: &rig{
				T: t, db: db, kafka: &kafka.Cluster{Client: committed}, env: map[string]string{
					"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
					"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_DELIVERY": "exactly_once",
					"CDC_OUTBOX_KAFKA_BROKERS": peers[i].Addr(),
				},
			}}
			v.begin()
			for _, kind := range some(t, lies.Kafka()) {
				v.lieTo(kind, func(a proxy.Answer) bool { return a.Key == key })
			}
		})
	}
}

// TestLiesToCommands: what reads topics and settings beside the connector is lied to, answer by answer.
func TestLiesToCommands(t *testing.T) {
	var peer *proxy.Proxy
	c := testkit.DedicatedKafka(t, kafka.Options{
		Listeners: []kafka.Listener{{Name: "STRAIGHT", Protocol: "PLAINTEXT"}},
		Advertise: func(_ int, addr string) string {
			var err error
			peer, err = proxy.Start(addr, proxy.Kafka)
			require.NoError(t, err)
			t.Cleanup(peer.Close)
			return peer.Addr()
		},
	})
	db := testkit.Postgres(t)
	emptyTable(t, db)
	topic, letters := db.Name+".events", db.Name+".letters"
	require.NoError(t, c.Create(within(t, patience), kafkaclient.Topic{Name: topic, Partitions: 1},
		kafkaclient.Topic{Name: topic + ".DLT", Partitions: 1}, kafkaclient.Topic{Name: letters, Partitions: 1}))
	v := &victim{peer: peer, rig: &rig{T: t, db: db, kafka: c, env: map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": peer.Addr(),
		"CDC_OUTBOX_ROUTER_DEAD_LETTER_TOPIC": letters,
	}}}
	v.begin()
	// The relay reaches its broker another way, so that `repair` finds it at work.
	v.start(map[string]string{"CDC_OUTBOX_KAFKA_BROKERS": c.Brokers[0].Listener("STRAIGHT")})
	commands := [][]string{
		{"check"},
		{"find", "00000000-0000-0000-0000-000000000001"},
		{"repair", "--dry-run"},
		{"dead-letter", "list"},
		{"replay", "--from-position", "0/1", "--to-position", "FF/0", "--dry-run"},
		{"forward", "--topic", topic, "--group", "g", "--to", "http://127.0.0.1:9", "--create-ledger"},
	}
	for _, key := range []kmsg.Key{
		kmsg.ApiVersions, kmsg.Metadata, kmsg.Fetch, kmsg.ListOffsets, kmsg.DescribeConfigs, kmsg.FindCoordinator,
		kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch,
	} {
		for _, kind := range some(t, lies.Kafka()) {
			v.what = key.Name()
			v.command(kind, func(a proxy.Answer) bool { return a.Key == key.Int16() }, commands)
		}
	}
}

// command runs commands side by side while a broker lies to them, and then asks the rest to end.
func (v *victim) command(kind lies.Kind, about func(proxy.Answer) bool, commands [][]string) {
	t := v.T
	t.Helper()
	liar := kind.About(about)
	v.peer.LieWith(liar.Lie)
	defer v.peer.Reset()
	defer v.peer.LieWith(nil)
	var all []*process.Process
	defer func() {
		for _, p := range all {
			require.NoError(t, p.Close())
		}
	}()
	for _, args := range commands {
		p, err := process.Start(process.Options{Env: v.env, Args: args})
		require.NoError(t, err)
		all = append(all, p)
	}
	began := time.Now()
	for _, p := range all {
		_, _ = p.Wait(soak(3*time.Second, 1500*time.Millisecond) - time.Since(began))
	}
	var codes []int
	peak, took, most := int64(0), time.Duration(0), ""
	for i, p := range all {
		began := time.Now()
		if p.Running() {
			_ = p.Signal(syscall.SIGTERM)
		}
		code, err := p.Wait(mostDrain)
		if err != nil {
			_ = p.Signal(syscall.SIGQUIT) // for its goroutines
			_, _ = p.Wait(patience)
			t.Fatalf("%s, %s, %s: after %v: %s", v.what, kind.Name, commands[i][0], err, p.Log())
		}
		require.Contains(t, []int{0, 1, 3}, code, "%s, %s, %s: %s", v.what, kind.Name, commands[i][0], p.Log())
		codes = append(codes, code)
		took = max(took, time.Since(began))
		if used := p.Usage().PeakRSS; used > peak {
			peak, most = used, commands[i][0]
		}
		require.Less(t, p.Usage().PeakRSS, int64(mostMemory), "%s, %s, %s", v.what, kind.Name, commands[i][0])
		v.clean(p)
	}
	t.Logf("%-20s %-26s %7d lies, peak %3d MiB (%s), ends in %4.1f s: %d", v.what, kind.Name, liar.Count(),
		peak>>20, most, took.Seconds(), codes)
}

// some draws a few kinds of lies, by the seed; a soak takes them all.
func some(t *testing.T, kinds []lies.Kind) []lies.Kind {
	rng := rand.New(rand.NewPCG(oracle.Seed(t), 3))
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds[:soak(len(kinds), 4)]
}
