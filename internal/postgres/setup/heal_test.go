package setup

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// healed is a database whose slot is lost again and again, and a Kafka that is a set of ids.
type healed struct {
	*adminDB
	*testing.T

	kafka map[string]bool
}

func newHealed(t *testing.T) *healed {
	h := &healed{withGaps(t, setupTableDDL), t, map[string]bool{}}
	h.cfg.Heals = true
	h.insert("before")
	h.kafka["before"] = true
	_, err := AcceptSlot(t.Context(), h.DSN, h.cfg)
	require.NoError(t, err)
	return h
}

func (h *healed) insert(id string) {
	h.Exec(h.T, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
		VALUES (gen_random_uuid(), 'a', 'k', '`+id+`', '{}')`)
}

// Fence has nothing to do.
func (h *healed) Fence(context.Context, string) error { return nil }

// Absent compares the table, as it is now, with Kafka.
func (h *healed) Absent(ctx context.Context, open []gap.Gap) (Absent, error) {
	var a Absent
	conn, err := pgx.Connect(ctx, h.DSN)
	if err != nil {
		return a, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT id::text, event_type FROM outbox")
	if err != nil {
		return a, err
	}
	a.IDs = [][]string{{}}
	var id, event string
	_, err = pgx.ForEachRow(rows, []any{&id, &event}, func() error {
		if !h.kafka[event] {
			a.IDs[0] = append(a.IDs[0], id)
		}
		return nil
	})
	for i := range open {
		a.Gaps = append(a.Gaps, open[i].ID)
	}
	return a, err
}

// comparing compares in its own way.
type comparing struct {
	*healed

	absent func(ctx context.Context, open []gap.Gap) (Absent, error)
}

func (c comparing) Absent(ctx context.Context, open []gap.Gap) (Absent, error) {
	return c.absent(ctx, open)
}

// relay publishes the list, as the connector does before it streams.
func (h *healed) relay() (published []string) {
	r, err := snapshot.Open(h.Context(), h.DSN, h.cfg.Objects)
	require.NoError(h, err)
	if r == nil {
		return nil
	}
	defer r.Close()
	last, err := r.Batch(h.Context(), 0, func(_ int64, rel *pgoutput.Relation, row pgoutput.Tuple) error {
		for i, c := range rel.Columns {
			if c.Name == "event_type" {
				published = append(published, string(row[i].Data))
			}
		}
		return nil
	})
	require.NoError(h, err)
	require.NoError(h, r.Done(h.Context(), last))
	require.NoError(h, r.Finish(h.Context()))
	for _, id := range published {
		require.False(h, h.kafka[id], "%s is published twice", id)
		h.kafka[id] = true
	}
	return published
}

// requireHealed requires that the slot is where it was left, and that no gap is open.
func (h *healed) requireHealed() {
	require.NoError(h, Ensure(h.Context(), h.DSN, h.cfg, true))
	r, err := ReportSlot(h.Context(), h.DSN, h.cfg)
	require.NoError(h, err)
	require.NoError(h, r.Problem())
	require.Equal(h, r.Remembered, r.ConfirmedFlushLSN)
	require.Empty(h, h.look(h.T))
	needs, err := NeedsHeal(h.Context(), h.DSN, h.cfg)
	require.NoError(h, err)
	require.False(h, needs)
}

func (h *healed) drop() {
	h.Exec(h.T, `SELECT pg_drop_replication_slot('`+h.cfg.Slot+`')`)
}

// TestASlotIsLostRightAfterItsHeal: nothing was confirmed from the slot that a heal has made, and so it is lost at a
// position before the first check of the publication. It is known all the same when this gap began.
//
// Bug (setup): a slot that was lost again, before the slot of its heal had confirmed anything, was not healed: "it is
// not known when it began". Cost: a connector that stopped for an operator.
func TestASlotIsLostRightAfterItsHeal(t *testing.T) {
	h := newHealed(t)
	for _, id := range []string{"one", "two"} {
		h.insert(id)
		h.drop()
		h.Exec(t, "SELECT pg_logical_emit_message(true, 'wal', 'more')")
		require.NoError(t, HealSlot(t.Context(), h.DSN, h.cfg, comparing{h, func(ctx context.Context, open []gap.Gap) (
			Absent, error,
		) {
			require.Len(t, open, 1)
			require.NotNil(t, open[0].FromAt, "%+v", open[0])
			require.Less(t, *open[0].FromAt, time.Now())
			return h.Absent(ctx, open)
		}}))
		require.Equal(t, []string{id}, h.relay())
		h.requireHealed()
	}
}

// TestAHealKilledAtAnyStep: a process dies before it sends one of its messages to the server, or after it has, before
// the answer. The next process goes on, and all that Kafka did not have is published once, in order. Each run takes
// some of the messages, of which there are about 140; with CDC_OUTBOX_TEST_STEPS=1 all of them.
func TestAHealKilledAtAnyStep(t *testing.T) {
	h := newHealed(t)
	stride := 10
	if os.Getenv("CDC_OUTBOX_TEST_STEPS") != "" {
		stride = 1
	}
	begin := 1 + rand.IntN(stride)
	for n, alive := begin, false; !alive; n += stride {
		require.Less(t, n, 300)
		for _, after := range []bool{false, true} {
			alive = h.killed(n, after)
		}
	}
}

// killed heals a lost slot twice, the first time by a process that is killed at a message. It returns true if there is
// no such message.
func (h *healed) killed(n int, after bool) (alive bool) {
	first, second, third := fmt.Sprint(n, after, 1), fmt.Sprint(n, after, 2), fmt.Sprint(n, after, 3)
	h.insert(first)
	h.drop()
	h.insert(second)
	c := newCutter(h.T, h.DSN, n, after)
	err := HealSlot(h.Context(), c.dsn(h.DSN), h.cfg, comparing{h, func(ctx context.Context, open []gap.Gap) (
		Absent, error,
	) {
		a, err := h.Absent(ctx, open)
		h.insert(third) // after the slot was made
		return a, err
	}})
	c.close()
	require.Eventually(h, func() bool { // its sessions end before that: nothing is done while one creates the slot
		err := HealSlot(h.Context(), h.DSN, h.cfg, h)
		return err == nil && len(h.look(h.T)) > 0
	}, time.Minute, 20*time.Millisecond)
	require.Len(h, h.look(h.T), 1, "a heal that goes on makes its gap longer")
	published := h.relay()
	require.Equal(h, []string{first, second}, published[:2], "message %d, after %v", n, after)
	h.requireHealed()
	h.kafka[third] = true // by the list of the second process, or through the slot of the first
	if len(published) > 2 {
		require.Equal(h, []string{third}, published[2:])
		require.Error(h, err)
	}
	return err == nil
}

// cutter forwards connections to the server, and cuts them off at one message.
type cutter struct {
	listener net.Listener
	upstream string
	after    bool

	mu    sync.Mutex
	left  int
	conns []net.Conn
	dead  bool
}

func newCutter(t *testing.T, dsn string, n int, after bool) *cutter {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{listener: l, upstream: fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), after: after, left: n}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

// dsn leads through the cutter.
func (c *cutter) dsn(dsn string) string {
	return strings.Replace(dsn, c.upstream, c.listener.Addr().String(), 1)
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	c.conns = append(c.conns, client)
	dead := c.dead
	c.mu.Unlock()
	if dead {
		return
	}
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		cut := c.cuts()
		if !cut || c.after {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if cut {
			c.close()
			if c.after { // the server goes on until it answers
				_ = server.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, server)
			}
			return
		}
	}
}

func (c *cutter) cuts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	return c.left <= 0
}

// close ends all connections, and takes no others.
func (c *cutter) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	c.listener.Close()
	for _, conn := range c.conns {
		conn.Close()
	}
}

// TestHealsRace: of several processes one heals; the others wait for it, and find the slot healed.
func TestHealsRace(t *testing.T) {
	h := newHealed(t)
	h.insert("a")
	h.drop()
	h.insert("b")
	var compared sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				err := HealSlot(t.Context(), h.DSN, h.cfg, comparing{h, func(ctx context.Context, open []gap.Gap) (
					Absent, error,
				) {
					if !compared.TryLock() {
						t.Error("two compare")
					}
					defer compared.Unlock()
					return h.Absent(ctx, open)
				}})
				if err == nil {
					return
				}
				if fault.KindOf(err) != fault.Retry {
					t.Error(err)
					return
				}
				time.Sleep(10 * time.Millisecond) //waits:ok until the other one is ready
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"a", "b"}, h.relay())
	h.requireHealed()
}

// TestVersionsAHealHasTheRowsOfItsSnapshot: what was committed before the slot was made comes from the list, in the
// order of the commits if the server keeps it, and what was committed later does not.
func TestVersionsAHealHasTheRowsOfItsSnapshot(t *testing.T) {
	h := newHealed(t)
	h.drop()
	want := []string{}
	for i := range 30 {
		id := fmt.Sprint("row ", i)
		h.insert(id)
		want = append(want, id)
	}
	h.kafka[want[7]] = true
	want = slices.Delete(want, 7, 8)
	err := HealSlot(t.Context(), h.DSN, h.cfg, comparing{h, func(ctx context.Context, open []gap.Gap) (
		Absent, error,
	) {
		require.Len(t, open, 1)
		require.Equal(t, gap.SlotRecreated, open[0].Cause)
		h.insert("late")
		return h.Absent(ctx, open)
	}})
	require.NoError(t, err)
	require.Equal(t, want, h.relay())
	h.requireHealed()
	var settled string
	require.NoError(t, h.conn.QueryRow(t.Context(), "SELECT concat(settled_how, ' ', missing, ' ', published) FROM "+
		h.cfg.Gaps().SQL()+" WHERE cause <> 'none'").Scan(&settled))
	require.Equal(t, "repaired 29 29", settled)
	n, err := CountSkipped(t.Context(), h.DSN, h.cfg, h.walEnd(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "the late one comes through the slot")
}

func (db *adminDB) walEnd(t *testing.T) (at string) {
	require.NoError(t, db.conn.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&at))
	return at
}
