package connector

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

func update(id string) *pgoutput.Message {
	m := row(id)
	m.Kind = pgoutput.KindUpdate
	return m
}

func remove() *pgoutput.Message {
	return &pgoutput.Message{Kind: pgoutput.KindDelete, Relation: relation}
}

func truncate(tables ...*pgoutput.Relation) *pgoutput.Message {
	return &pgoutput.Message{Kind: pgoutput.KindTruncate, Truncated: tables}
}

var elsewhere = &pgoutput.Relation{OID: 2, Namespace: "public", Name: "other", Columns: []pgoutput.Column{{Name: "id"}}}

func TestChangesAreCountedAndNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		foreign := remove()
		foreign.Relation = elsewhere
		g := start(t, Config{
			Logger:      zap.New(core),
			Replication: replication.Config{Tables: []identifier.Table{{Schema: "public", Name: "outbox"}}},
		}, true,
			opening{at(50), newStream(begin(100), row("a"), update("a"), update("a"), remove(),
				truncate(elsewhere, relation), row("b"), commit(150),
				begin(200), foreign, truncate(elsewhere), commit(250))})
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, g.producer.produced())
		require.Equal(t, "0000000000000064-00000001", string(g.producer.records[1].Headers[2].Value),
			"a change does not move the positions after it")
		require.Equal(t, walAt(250), g.confirmed())
		n := g.Status().Counts
		require.EqualValues(t, []uint64{2, 1, 1, 2}, []uint64{n.Updates, n.Deletes, n.Truncates, n.Foreign})
		require.NoError(t, testutil.GatherAndCompare(g.registry,
			strings.NewReader(
				`# HELP cdc_outbox_outbox_changes_total Changes of the outbox besides inserts that the publication `+
					`sends and that are no events, by operation.
# TYPE cdc_outbox_outbox_changes_total counter
cdc_outbox_outbox_changes_total{operation="delete"} 1
cdc_outbox_outbox_changes_total{operation="truncate"} 1
cdc_outbox_outbox_changes_total{operation="update"} 2
`), "cdc_outbox_outbox_changes_total"))
		said := logs.FilterMessageSnippet("changed by something other than INSERT")
		require.Equal(t, 3, said.Len(), "once for each kind")
		require.Equal(t, "0/64", said.All()[0].ContextMap()["lsn"])
		g.stop()
		require.NoError(t, <-g.done)
	})
}

// The log says again, after a while, how many there were.
func TestChangesAreSaidAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		first := brokenStream(begin(100), update("a"), update("a"), commit(150))
		g := start(t, Config{Logger: zap.New(core)}, true, opening{at(50), first},
			opening{at(150), newStream(begin(200), commit(250))})
		synctest.Wait()
		time.Sleep(warnAgain)
		require.NoError(t, g.reader.changed(update("b")))
		said := logs.FilterMessageSnippet("changed by something").All()
		require.Len(t, said, 2)
		require.EqualValues(t, 2, said[1].ContextMap()["rows"])
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestIgnoredChangesAreOnlyCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		g := start(t, Config{Logger: zap.New(core), OnChange: IgnoreChange}, true,
			opening{at(50), newStream(begin(100), update("a"), row("b"), commit(150))})
		synctest.Wait()
		require.Equal(t, []string{"b"}, g.producer.produced())
		require.EqualValues(t, 1, g.Status().Counts.Updates)
		require.Zero(t, logs.FilterMessageSnippet("changed by something").Len())
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestHaltsInFrontOfAChange(t *testing.T) {
	for name, c := range map[string]struct {
		change *pgoutput.Message
		reason string
		id     string
	}{"update": {update("u"), "update", "u"}, "truncate": {truncate(relation), "truncate", ""}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.ErrorLevel)
				script := []*pgoutput.Message{begin(100), row("a"), remove(), row("b"), c.change, row("c"), commit(150)}
				first, second := newStream(script...), newStream(script...)
				g := start(t, Config{
					OnChange:    HaltAtTheFirst,
					DeadLetters: deadletter.Builder{Columns: deadletter.Columns{ID: "id"}}, Logger: zap.New(core),
				},
					true,
					opening{at(50), first}, opening{at(50), second})
				synctest.Wait()
				for range 2 { // the second time after a broken stream
					require.Equal(t, []string{"a", "b"}, g.producer.produced())
					st := g.Status()
					require.Equal(t, relay.Halted, st.State.Name)
					require.Equal(t, relay.HaltedRow{
						Position: "0000000000000064-00000002", LSN: "0/64", EventID: c.id, Reason: c.reason,
						Message: strings.ToUpper(c.reason) + " of public.outbox, and postgres.on_change is halt",
						Next:    st.Halted.Next, Since: st.Halted.Since,
					}, *st.Halted)
					require.False(t, st.Ready)
					require.Contains(t, st.ReadyReason, "LSN 0/64")
					require.Equal(t, walAt(50), g.confirmed())
					select {
					case <-first.broken:
					default:
						close(first.broken)
					}
					synctest.Wait()
				}
				require.Equal(t, 1, logs.FilterMessageSnippet("halted at a change").Len())
				g.stop()
				require.NoError(t, <-g.done)
			})
		})
	}
}
