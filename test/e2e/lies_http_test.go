//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// TestLiesOfAnEndpoint: whatever the receiver of alerts, or of forwarded records, answers, memory is bounded, SIGTERM
// ends the process, nothing goes where a redirect leads, and a record that waited is handled once there is an answer.
func TestLiesOfAnEndpoint(t *testing.T) {
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		r, kind, _ := plainRig(t, testkit.Postgres(t))
		halted := r.start(map[string]string{"CDC_OUTBOX_KAFKA_TOPICS_CREATE": "false"})
		r.insert(kind+"-without-a-topic", 1)
		awaitNotReady(t, halted, patience)
		_, err := halted.Stop(patience)
		require.NoError(t, err)
		hook := lies.StartEndpoint(t)
		eachAnswer(t, hook, func() *process.Process {
			return r.launch(map[string]string{
				"CDC_OUTBOX_MONITOR_WEBHOOK": hook.URL, "CDC_OUTBOX_MONITOR_INTERVAL": "250ms",
				"CDC_OUTBOX_MONITOR_REPEAT_INTERVAL": "1s", "CDC_OUTBOX_HTTP_STALL": "1s",
			})
		}, func(p *process.Process) { require.True(t, p.Running(), p.LogTail(10)) })
	})
	t.Run("forward", func(t *testing.T) {
		t.Parallel()
		r, _, topic := plainRig(t, testkit.Postgres(t))
		require.NoError(t, r.kafka.Create(within(t, patience), kafkaclient.Topic{Name: topic + ".DLT", Partitions: 1}))
		producer, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addrs()...))
		require.NoError(t, err)
		t.Cleanup(producer.Close)
		to, events := lies.StartEndpoint(t), 0
		conn := connect(t, r.db.DSN)
		handled := func() (n int) {
			require.NoError(t, conn.QueryRow(t.Context(),
				"SELECT count(*) FROM processed_events WHERE status = 'COMPLETED'").Scan(&n))
			return n
		}
		eachAnswer(t, to, func() *process.Process {
			events++
			require.NoError(t, producer.ProduceSync(within(t, patience), &kgo.Record{
				Topic: topic, Value: []byte("1"),
				Headers: []kgo.RecordHeader{{Key: "id", Value: fmt.Appendf(nil, "event-%d", events)}},
			}).FirstErr())
			p, err := process.Start(process.Options{
				Env:  r.env,
				Args: []string{"forward", "--topic", topic, "--group", "g", "--to", to.URL, "--create-ledger"},
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			return p
		}, func(p *process.Process) {
			until(t, patience, 50*time.Millisecond, func() (bool, string) {
				n := handled()
				return n == events, fmt.Sprintf("%d of %d events are handled: %s", n, events, p.LogTail(10))
			})
		})
	})
}

// eachAnswer launches a process for each kind of answer, which meets the lie, the truth, which settles it, and stops
// while it is lied to again.
func eachAnswer(t *testing.T, e *lies.Endpoint, launch func() *process.Process, settled func(*process.Process)) {
	t.Helper()
	trap := lies.StartEndpoint(t)
	for _, kind := range some(t, append(lies.HTTP(), lies.RedirectTo(trap.URL)), 2) {
		e.Answer(kind)
		v := &victim{rig: &rig{T: t}, what: kind.Name}
		p, began := launch(), time.Now()
		until(t, patience, 20*time.Millisecond, func() (bool, string) {
			require.True(t, p.Running(), p.LogTail(10))
			return e.Count() > 0, p.LogTail(10)
		})
		//waits:ok what is measured is a time
		time.Sleep(soak(3*time.Second, 1500*time.Millisecond))
		v.clean(p)
		used, lied := p.Usage(), e.Count()
		cpu := float64(used.CPU) / float64(time.Since(began))
		e.Answer(lies.Honest())
		began = time.Now()
		settled(p)
		again := time.Since(began)
		e.Answer(kind)
		began = time.Now()
		code, err := p.Stop(mostDrain)
		require.NoError(t, err, "%s: %s", kind.Name, p.LogTail(10))
		v.clean(p)
		t.Logf("%-28s %3d lies, peak %3d MiB, %3.0f %% of a core, on after %5.1f s, stops in %4.1f s: %d",
			kind.Name, lied, used.PeakRSS>>20, 100*cpu, again.Seconds(), time.Since(began).Seconds(), code)
		require.Less(t, p.Usage().PeakRSS, int64(mostMemory), kind.Name)
		require.Zero(t, trap.Count(), "%s: a redirect to another address was followed", kind.Name)
	}
}
