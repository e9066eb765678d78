package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// fakeList is a list of rows by number, in batches of two. It is opened again like the real one.
type fakeList struct {
	mu     sync.Mutex
	rows   map[int64]string // number: aggregate type
	opened int
	breaks int64 // once, in front of this row: the connection
	gone   bool

	missing map[int64]bool // rows that the table no longer has
	done    error          // what Done says, once
}

var errList = &fault.Error{Kind: fault.Retry, Object: "list", Err: errors.New("broken")}

func newList(n int64) *fakeList {
	l := &fakeList{rows: map[int64]string{}}
	for i := int64(1); i <= n; i++ {
		l.rows[i] = "order"
	}
	return l
}

func (l *fakeList) open(context.Context) (Snapshot, error) {
	l.opened++
	if l.gone {
		return nil, nil
	}
	return l, nil
}

func (l *fakeList) Left() int64 { return int64(len(l.rows)) }
func (l *fakeList) Close()      {}

func (l *fakeList) Batch(_ context.Context, after int64, take func(int64, *pgoutput.Relation,
	pgoutput.Tuple) error,
) (last int64, err error) {
	l.mu.Lock()
	var numbers []int64
	for n := range l.rows {
		if n > after {
			numbers = append(numbers, n)
		}
	}
	l.mu.Unlock()
	slices.Sort(numbers)
	for _, n := range numbers[:min(2, len(numbers))] {
		if n == l.breaks {
			l.breaks = 0
			return 0, errList
		}
		if last = n; l.missing[n] {
			continue
		}
		if err := take(n, relation, typedRow(fmt.Sprint("s", n), l.rows[n]).Tuple); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (l *fakeList) Done(_ context.Context, last int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.done; err != nil {
		l.done = nil
		return err
	}
	for n := range l.rows {
		if n <= last {
			delete(l.rows, n)
		}
	}
	return nil
}

func (l *fakeList) Finish(context.Context) error { l.gone = true; return nil }

func TestExistingRowsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(5)
		g := start(t, Config{Snapshot: l.open, SnapshotHeader: true}, true,
			opening{at(0x50), newStream(begin(0x100), row("a"), commit(0x150))})
		synctest.Wait()
		require.Equal(t, []string{"s1", "s2", "s3", "s4", "s5", "a"}, g.producer.produced())
		for i, rec := range g.producer.records {
			last := rec.Headers[len(rec.Headers)-1]
			if i == 5 {
				require.Equal(t, "0000000000000100-00000000", string(last.Value))
				break
			}
			require.Equal(t, "snapshot", last.Key)
			require.Equal(t, fmt.Sprintf("000000000000004f-%08x", i+1), string(rec.Headers[2].Value))
		}
		require.Equal(t, walAt(0x150), g.confirmed())
		require.True(t, l.gone)
		require.Empty(t, l.rows)
		require.Nil(t, g.Status().Snapshot)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestExistingRowsAreNotStruckOffBeforeTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(5)
		s := newStream(begin(0x100), row("a"), commit(0x150))
		g := start(t, Config{Snapshot: l.open}, false, opening{at(0x50), s})
		synctest.Wait()
		require.Equal(t, []string{"s1", "s2"}, g.producer.produced())
		require.Len(t, l.rows, 5)
		st := g.Status()
		require.Equal(t, SnapshotStatus{Total: 5}, *st.Snapshot)
		require.False(t, st.Ready)
		g.producer.ack()
		synctest.Wait()
		require.Equal(t, []string{"s1", "s2", "s3", "s4"}, g.producer.produced())
		require.Len(t, l.rows, 3)
		g.stop()
		synctest.Wait()
		g.producer.ack()
		require.NoError(t, <-g.done, "a stop leaves the rest to the next start")
		require.Len(t, l.rows, 1)
		require.Equal(t, walAt(0x50), g.confirmed())
	})
}

// The connection to the list breaks, then the stream: nothing comes twice.
func TestExistingRowsOverBrokenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(7)
		l.breaks = 4
		broken := newStream()
		close(broken.broken)
		g := start(t, Config{Snapshot: l.open}, true, opening{at(0x50), newStream()}, opening{at(0x50), broken},
			opening{at(0x50), newStream()})
		synctest.Wait()
		require.Equal(t, []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"}, g.producer.produced())
		require.Equal(t, 3, l.opened)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestExistingRowsThatKafkaHasAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(5)
		p := &fakeProducer{auto: true, stored: &sink.Stored{Position: sink.Position{
			Timeline: 1,
			Position: offsets.Position{Commit: 0x4f, Index: 3},
		}, SystemID: "1"}}
		g := startWith(t, Config{Snapshot: l.open, ExactlyOnce: true}, p,
			opening{at(0x50), newStream(begin(0x100), row("a"), commit(0x150))})
		synctest.Wait()
		require.Equal(t, []string{"s4", "s5", "a"}, g.producer.produced())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestAnExistingBadRowHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(5)
		l.rows[4] = "no/topic"
		first := newStream()
		g := start(t, Config{Snapshot: l.open}, true, opening{at(0x50), first}, opening{at(0x50), newStream()})
		for range 2 {
			synctest.Wait()
			require.Equal(t, []string{"s1", "s2", "s3"}, g.producer.produced())
			require.Equal(t, relay.Halted, g.Status().State.Name)
			require.Equal(t, "s4", g.Status().Halted.EventID)
			require.Len(t, l.rows, 2, "what lies before it is struck off")
			if first != nil {
				close(first.broken)
				first = nil
			}
		}
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The connection breaks when the rows are to be struck off, which Kafka has: the next pass does not send them again.
func TestExistingRowsAreNotRepeatedWhenStrikingOffFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(3)
		l.done = errList
		g := start(t, Config{Snapshot: l.open}, true, opening{at(0x50), newStream()}, opening{at(0x50), newStream()})
		synctest.Wait()
		require.Equal(t, []string{"s1", "s2", "s3"}, g.producer.produced())
		require.Empty(t, l.rows)
		require.EqualValues(t, 2, g.Status().Counts.Repeated)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// Rows that the table no longer has are struck off too, also where they are all that a batch has.
func TestExistingRowsThatTheTableLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(8)
		l.missing = map[int64]bool{1: true, 2: true, 4: true, 5: true, 7: true, 8: true}
		g := start(t, Config{Snapshot: l.open}, true, opening{at(0x50), newStream()})
		synctest.Wait()
		require.Equal(t, []string{"s3", "s6"}, g.producer.produced())
		require.Empty(t, l.rows)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The progress counts rows that Kafka has. The log has it now and then.
func TestExistingRowsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		l := newList(8)
		g := start(t, Config{Snapshot: l.open, Logger: zap.New(core)}, false, opening{at(0x50), newStream()})
		for _, step := range []struct {
			done, said int64
			sleep      time.Duration
		}{{0, 0, sayEvery / 2}, {2, 0, sayEvery / 2}, {4, 1, sayEvery - 1}, {6, 1, 0}} {
			synctest.Wait()
			require.Equal(t, SnapshotStatus{Done: step.done, Total: 8}, *g.Status().Snapshot)
			_, why := g.Ready()
			require.Contains(t, why, fmt.Sprintf("before the slot: %d of 8 are done", step.done))
			require.EqualValues(t, step.said, logs.FilterFieldKey("of").Len())
			time.Sleep(step.sleep)
			g.producer.ack()
		}
		synctest.Wait()
		require.Nil(t, g.Status().Snapshot)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// While Postgres is away, that is what is wrong, not the progress of the snapshot.
func TestExistingRowsWhilePostgresIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(4)
		l.breaks = 1
		g := start(t, Config{Snapshot: l.open}, false, opening{at(0x50), newStream()})
		synctest.Wait()
		require.EqualValues(t, 4, g.Status().Snapshot.Total)
		_, why := g.Ready()
		require.Equal(t, "reconnecting: list: broken", why)
		g.setState(relay.State{Name: relay.Snapshotting})
		g.snapshot.total.Store(0)
		_, why = g.Ready()
		require.Equal(t, "snapshot", why)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// What is taken is struck off whatever ended the batch; of two errors the error of the batch counts, unless it only
// means that the reader stays where it is.
func TestExistingRowsEndOfABatch(t *testing.T) {
	notStruck := errors.New("not struck off")
	for name, test := range map[string]struct {
		batch, done, want error
	}{
		"all taken":               {nil, nil, nil},
		"not struck off":          {nil, notStruck, notStruck},
		"the list broke":          {errList, nil, errList},
		"both":                    {errList, notStruck, errList},
		"halted":                  {errHalted, nil, errHalted},
		"halted, not struck off":  {errHalted, notStruck, notStruck},
		"stopped":                 {errStopping, nil, errStopping},
		"stopped, not struck off": {errStopping, notStruck, notStruck},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := idle(t, Config{})
			l := &oneBatch{fakeList: newList(2), err: test.batch}
			l.done = test.done
			w := snapshotRun{r: &c.reader, s: newStream(), list: l}
			require.Equal(t, test.want, w.run())
			require.Equal(t, test.done == nil, len(l.rows) < 2)
		})
	}
}

// oneBatch is a list whose first batch ends with an error after its first row.
type oneBatch struct {
	*fakeList
	err error
}

func (l *oneBatch) Batch(ctx context.Context, after int64, take func(int64, *pgoutput.Relation,
	pgoutput.Tuple) error,
) (last int64, err error) {
	if l.err == nil {
		return l.fakeList.Batch(ctx, after, take)
	}
	if err := take(1, relation, typedRow("s1", "order").Tuple); err != nil {
		return 0, err
	}
	return 0, l.err
}
