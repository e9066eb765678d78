//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// pair is a primary, its standby, and a connector's surroundings that know both.
type pair struct {
	*rig
	standby     *testkit.Database
	kind, topic string
}

// newPair makes them. With keepSlots the standby has, from the start, a copy of the slot that nothing moves: what a
// tool that copies slots now and then leaves behind.
func newPair(t *testing.T, version string, keepSlots bool, settings, onStandby map[string]string) *pair {
	t.Helper()
	db := testkit.DedicatedPostgres(t, postgres.Options{Version: version, Settings: settings})
	r, kind, topic := plainRig(t, db)
	p := &pair{rig: r, kind: kind, topic: topic}
	if keepSlots {
		first := r.start()
		code, err := first.Stop(patience)
		require.NoError(t, err)
		require.Zero(t, code)
	}
	server, err := db.Server.Standby(r.within(patience), "standby", keepSlots, onStandby)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the standby's log:\n%s", server.LogTail(30))
		}
		require.NoError(t, server.Close())
	})
	standby := *db
	standby.Server, standby.DSN = server, server.DSN(db.Name)
	p.standby = &standby
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	u.Host += "," + server.Addr()
	u.RawQuery += "&target_session_attrs=read-write&connect_timeout=3"
	r.env["CDC_OUTBOX_POSTGRES_DSN"] = u.String()
	return p
}

// versionFrom is the version that the tests run on, where it lies between the two; otherwise 15, or the lowest that
// does.
func versionFrom(low, high int) string {
	if asked, err := strconv.Atoi(os.Getenv(postgres.EnvVersion)); err == nil && asked >= low && asked <= high {
		return strconv.Itoa(asked)
	}
	return strconv.Itoa(max(low, 15))
}

// failOver waits until the standby has everything, kills the primary and promotes the standby.
func (p *pair) failOver() {
	p.Helper()
	require.Eventually(p, func() bool {
		var same bool
		err := connect(p.T, p.db.DSN).QueryRow(p.Context(),
			`SELECT coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) FROM pg_stat_replication
				WHERE application_name = 'standby'`).Scan(&same)
		return err == nil && same
	}, patience, 200*time.Millisecond, "the standby follows")
	p.db.Kill()
	require.NoError(p, p.standby.Promote(p.within(patience)))
}

// difference is what a topic and a table do not have in common, by the events' ids.
type difference struct {
	missing []string // rows without a record
	ghosts  []string // records without a row
	repeats int      // records of an id after its first
}

func differ(rows, records []string) (d difference) {
	here, there := map[string]bool{}, map[string]bool{}
	for _, id := range rows {
		here[id] = true
	}
	for _, id := range records {
		switch {
		case there[id]:
			d.repeats++
		case !here[id]:
			d.ghosts = append(d.ghosts, id)
		}
		there[id] = true
	}
	for _, id := range rows {
		if !there[id] {
			d.missing = append(d.missing, id)
		}
	}
	return d
}

// Where numbers are compared, a ghost or a repeat hides a loss.
func TestAGhostHidesNoLoss(t *testing.T) {
	require.Equal(t, difference{missing: []string{"b"}, ghosts: []string{"x"}, repeats: 1},
		differ([]string{"a", "b", "c"}, []string{"a", "x", "c", "c"}))
}

// difference compares the topic with the rows of the new primary.
func (p *pair) difference(topic string) difference {
	var rows, records []string
	require.NoError(p, connect(p.T, p.standby.DSN).QueryRow(p.Context(),
		`SELECT COALESCE(array_agg(id::text), '{}') FROM outbox`).Scan(&rows))
	have, err := p.kafka.Read(p.Context(), topic)
	require.NoError(p, err)
	for _, rec := range have {
		records = append(records, headerOf(rec, "id"))
	}
	return differ(rows, records)
}

// awaitComplete waits until the topic has every row of the new primary. It has no other event: the standby had
// everything when the primary was killed.
func (p *pair) awaitComplete() (repeats int) {
	p.Helper()
	require.Eventually(p, func() bool { return len(p.difference(p.topic).missing) == 0 },
		patience, 200*time.Millisecond)
	d := p.difference(p.topic)
	require.Empty(p, d.ghosts)
	return d.repeats
}

// newSynchronizedPair is a pair whose standby keeps a synchronised copy of the connector's slot, and that connector.
func newSynchronizedPair(t *testing.T) (*pair, *process.Process) {
	t.Helper()
	p := newPair(t, versionFrom(17, 99), false, map[string]string{"synchronized_standby_slots": "standby"},
		map[string]string{"sync_replication_slots": "on"})
	p.env["CDC_OUTBOX_POSTGRES_FAILOVER"] = "true"
	c := p.start()
	p.insert(p.kind, 100)
	require.NoError(t, p.kafka.Await(p.within(patience), 100, p.topic))
	require.Eventually(t, func() bool { // the standby has taken the slot over for good
		var synced bool
		err := connect(t, p.standby.DSN).QueryRow(t.Context(),
			`SELECT synced AND NOT temporary AND invalidation_reason IS NULL FROM pg_replication_slots
				WHERE slot_name = $1`, p.db.Slot).Scan(&synced)
		if err != nil || !synced {
			p.insert(p.kind, 1) // which moves it on
		}
		return err == nil && synced
	}, patience, time.Second, "the slot is synchronised")
	return p, c
}

// A promoted standby with a synchronised slot: nothing is missing and nothing is repeated beyond what a lagging copy
// brings again.
func TestFailoverToSynchronizedSlot(t *testing.T) {
	t.Parallel()
	p, c := newSynchronizedPair(t)
	p.insert(p.kind, 50)
	p.failOver()
	p.db = p.standby
	began := time.Now()
	p.insert(p.kind, 100)
	repeats := p.awaitComplete()
	t.Logf("on the new primary after %v, %d repeated", time.Since(began).Round(time.Millisecond), repeats)
	require.NoError(t, c.Ready(p.within(patience)))
}

// The primary dies while the instance that holds the slot is frozen, so the other instance takes over on the promoted
// standby. Then the first one awakes, with a session of a server that has ended, and waits for the slot.
func TestFailoverWhileAPairChangesHands(t *testing.T) {
	t.Parallel()
	p, first := newSynchronizedPair(t)
	second := p.launch()
	require.NoError(t, first.Signal(syscall.SIGSTOP))
	p.insert(p.kind, 50)
	p.failOver()
	p.db = p.standby
	p.insert(p.kind, 100)
	require.NoError(t, second.Ready(p.within(patience)))
	p.awaitComplete()
	require.NoError(t, first.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool {
		_, why := first.IsReady()
		return strings.Contains(why, "the slot is held by")
	}, patience, 100*time.Millisecond)
	p.insert(p.kind, 10)
	p.awaitComplete()
	require.NoError(t, second.Ready(p.within(patience)))
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		_, why := first.IsReady()
		return strings.Contains(why, "the slot is held by"), why
	})
}

// A promoted standby without the slot: refused, with the remedy named.
func TestFailoverWithoutSlot(t *testing.T) {
	t.Parallel()
	p := newPair(t, versionFrom(14, 99), false, nil, nil)
	c := p.start()
	p.insert(p.kind, 100)
	require.NoError(t, p.kafka.Await(p.within(patience), 100, p.topic))
	p.failOver()
	p.db = p.standby
	p.insert(p.kind, 10)
	code, err := c.Wait(patience)
	require.NoError(t, err, "it gives up")
	require.Equal(t, 3, code)
	require.Contains(t, c.Log(), "It no longer exists, while publication")
	require.Contains(t, c.Log(), "cdc-outbox repair")
}

// A promoted standby with an old copy of the slot: the checkpoint, which came along with the log, knows better than the
// slot, so nothing is missing and nothing is sent again.
func TestFailoverToLaggingSlot(t *testing.T) {
	t.Parallel()
	p := newPair(t, versionFrom(14, 16), true, nil, nil) // from 17 on slots are synchronised instead
	c := p.start()
	p.insert(p.kind, 100)
	require.NoError(t, p.kafka.Await(p.within(patience), 100, p.topic))
	latest := uint64(0)
	for _, rec := range p.committed(p.topic, 100) {
		var commit uint64
		_, err := fmt.Sscanf(headerOf(rec, "position"), "%x-", &commit)
		require.NoError(t, err)
		latest = max(latest, commit)
	}
	require.Eventually(t, func() (covers bool) {
		require.NoError(t, connect(t, p.db.DSN).QueryRow(t.Context(),
			`SELECT position > $1::text::pg_lsn FROM cdc_outbox_slots`,
			fmt.Sprintf("%X/%X", latest>>32, uint32(latest))).Scan(&covers))
		return covers
	}, patience, 20*time.Millisecond)
	p.failOver()
	p.db = p.standby
	p.insert(p.kind, 10)
	require.NoError(t, p.kafka.Await(p.within(patience), 110, p.topic))
	require.Equal(t, difference{}, p.difference(p.topic))
	require.NoError(t, c.Ready(p.within(patience)))
}

// The time in which a standby takes over. A frozen process keeps the slot until the server misses its status updates;
// the session's own wal_sender_timeout bounds that.
func TestWaitingInstanceTakesOver(t *testing.T) {
	t.Parallel()
	missed := soak(20*time.Second, 40*time.Second) // the session's limit is 10 s, the server's is 60 s
	for _, end := range []struct {
		name  string
		limit time.Duration
		do    func(p *process.Process, line *proxy.Proxy)
	}{
		{"killed", 8 * time.Second, func(p *process.Process, _ *proxy.Proxy) { p.Kill() }},
		{"stopped", 8 * time.Second, func(p *process.Process, _ *proxy.Proxy) { _, _ = p.Stop(patience) }},
		{"frozen", missed, func(p *process.Process, _ *proxy.Proxy) { _ = p.Signal(syscall.SIGSTOP) }},
		{"cut off", missed, func(_ *process.Process, line *proxy.Proxy) { line.Stall(true) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			db := testkit.Postgres(t)
			r, kind, topic := plainRig(t, db)
			line, via := postgresProxy(t, db)
			first := r.start(map[string]string{"CDC_OUTBOX_POSTGRES_DSN": via})
			second := r.launch()
			require.Eventually(t, func() bool {
				_, why := second.IsReady()
				return len(why) > 7 && why[:7] == "standby"
			}, patience, 50*time.Millisecond)
			began := time.Now()
			end.do(first, line)
			require.NoError(t, second.Ready(r.within(patience)))
			took := time.Since(began)
			t.Logf("taken over after %v", took.Round(time.Millisecond))
			require.Less(t, took, soak(end.limit, patience))
			r.insert(kind, 10)
			require.NoError(t, r.kafka.Await(r.within(patience), 10, topic))
		})
	}
}
