//go:build e2e

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

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
		for _, kind := range some(t, lies.Kafka(), 1) {
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
