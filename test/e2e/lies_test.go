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

	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// What a liar may cost. A process at rest has 40 MiB; an answer may have 64, and docs/deploy.md advises 384.
const (
	mostMemory = 350 << 20
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

// some draws a few kinds of lies, by the seed; a soak takes them all.
func some[K any](t *testing.T, kinds []K, few int) []K {
	rng := rand.New(rand.NewPCG(oracle.Seed(t), 3))
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds[:soak(len(kinds), few)]
}
