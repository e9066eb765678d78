package connector

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
)

func TestNewNeedsItsParts(t *testing.T) {
	r, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic})
	require.NoError(t, err)
	whole := func() Config {
		return Config{
			Sink: (&fakeProducer{}).open, Router: r, Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
			Logger: zap.NewNop(),
		}
	}
	for name, without := range map[string]func(*Config){
		"Sink":    func(c *Config) { c.Sink = nil },
		"Router":  func(c *Config) { c.Router = nil },
		"Metrics": func(c *Config) { c.Metrics = nil },
		"Logger":  func(c *Config) { c.Logger = nil },
	} {
		cfg := whole()
		without(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "are required", name)
	}
	c, err := New(whole())
	require.NoError(t, err)
	require.Equal(t, []any{WarnOfChange, 100_000, int64(32 << 20), 15 * time.Second, 8 * time.Second}, []any{
		c.cfg.OnChange, c.cfg.WindowRecords, c.cfg.WindowBytes, c.cfg.Stall, c.cfg.DrainLimit,
	}, "the defaults")
	cfg := whole()
	cfg.Sink = func(sink.Callbacks) (sink.Producer, error) { return nil, errors.New("no such codec") }
	_, err = New(cfg)
	require.EqualError(t, err, "no such codec")
}

// A series of fruitless streams is as old as the first of them, not as a series before.
func TestBarrenSince(t *testing.T) {
	old, now := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, test := range map[string]struct {
		before barren
		since  time.Time
	}{
		"the first":     {barren{}, now},
		"a new series":  {barren{streams: 0, since: old}, now},
		"it continues":  {barren{streams: 1, since: old}, old},
		"never counted": {barren{streams: 1}, now},
	} {
		require.Equal(t, test.since, test.before.next(broken(1, 0x200), mark{}, now).since, name)
	}
	for streams, lasts := range map[int]bool{1: false, 2: true, 3: true} {
		b := barren{}.next(broken(streams, 0x200), mark{}, now)
		require.Equal(t, lasts, b.lasts(mark{}, 0x150), streams)
	}
}

func TestIDOfAChange(t *testing.T) {
	c, _ := idle(t, Config{DeadLetters: deadletter.Builder{Columns: deadletter.Columns{ID: "id"}}})
	toasted, short, text := update("x"), update("x"), update("x")
	toasted.Tuple[0].Kind = pgoutput.Unchanged
	short.Tuple = nil
	gone := remove()
	gone.Tuple = text.Tuple
	strange := update("x")
	strange.Relation = &pgoutput.Relation{Columns: []pgoutput.Column{{Name: "n"}}}
	for name, test := range map[string]struct {
		m    *pgoutput.Message
		want string
	}{
		"sent": {text, "x"}, "not sent": {toasted, ""}, "no values": {short, ""}, "a DELETE": {gone, ""},
		"no such column": {strange, ""},
	} {
		require.Equal(t, test.want, c.reader.changedID(test.m.Relation, test.m), name)
	}
}

// Only rows up to the stored position and of its timeline are in Kafka.
func TestCoveredRows(t *testing.T) {
	at := func(commit offsets.LSN, index uint32) offsets.Position {
		return offsets.Position{Commit: commit, Index: index}
	}
	upTo := covered{any: true, upTo: at(0x300, 1), timeline: 2}
	for _, test := range []struct {
		covered  covered
		pos      offsets.Position
		timeline int32
		want     bool
	}{
		{upTo, at(0x300, 0), 2, true},
		{upTo, at(0x300, 1), 2, true},
		{upTo, at(0x300, 2), 2, false},
		{upTo, at(0x400, 0), 2, false},
		{upTo, at(0x200, 0), 3, false},
		{covered{upTo: at(0x300, 1), timeline: 2}, at(0x200, 0), 2, false},
	} {
		require.Equal(t, test.want, test.covered.holds(test.pos, test.timeline))
	}
}

// What the stored position is worth depends on its timeline, the slot and the end of the log.
func TestAdoptsAPosition(t *testing.T) {
	const (
		none, ignored   = "", "of another timeline"
		beyond, adopted = "beyond the end of the WAL", "are not published again"
	)
	for name, test := range map[string]struct {
		timeline int32
		commit   offsets.LSN
		says     string
	}{
		"of this timeline":                     {1, 0x200, adopted},
		"one byte before the end of the log":   {1, 0xffff, adopted},
		"at the end of the log":                {1, 0x10000, beyond},
		"of another one, before the slot":      {2, 0x4f, none},
		"of another one, at the slot":          {2, 0x50, ignored},
		"of another one, beyond the slot":      {2, 0x51, ignored},
		"of another one, beyond the log's end": {2, 0x10001, ignored},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			c, _ := idle(t, Config{Logger: zap.New(core)})
			require.NoError(t, c.reader.adopt(at(0x50), *stored(test.timeline, test.commit, 0)))
			require.Equal(t, test.says == adopted, c.reader.covered.any)
			if test.says == none {
				require.Zero(t, logs.Len())
				return
			}
			require.Equal(t, 1, logs.Len())
			require.Contains(t, logs.All()[0].Message, test.says)
		})
	}
}

// An owner that has committed nothing has no position to adopt.
func TestBeginWithoutAPosition(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	c, p := idle(t, exactlyOnce(Config{Logger: zap.New(core)}))
	p.stored = stored(1, 0, 0)
	c.identity = at(0x50)
	require.NoError(t, c.reader.takeOver(newStream()))
	require.Zero(t, logs.FilterMessageSnippet("position stored in Kafka").Len())
	require.False(t, c.reader.covered.any)
}

func TestWhyFencingWaits(t *testing.T) {
	c, p := idle(t, Config{})
	require.Equal(t, "waiting for Kafka to hand over the transactional id", c.fencingReason())
	p.trouble = []sink.Trouble{{Object: "broker 1", Sentence: "is away"}}
	require.Equal(t, "waiting for Kafka to hand over the transactional id: broker 1: is away", c.fencingReason())
}

// preparing counts the relations that it is prepared for.
type preparing struct {
	router.Router
	relations []*pgoutput.Relation
}

func (p *preparing) Prepare(rel *pgoutput.Relation) error {
	p.relations = append(p.relations, rel)
	return nil
}

func TestPreparesEachRelationOnce(t *testing.T) {
	p := &preparing{}
	c, _ := idle(t, Config{Router: p, Replication: replication.Config{Tables: []identifier.Table{
		{Schema: "public", Name: "outbox"},
	}}})
	another := *relation
	for _, rel := range []*pgoutput.Relation{relation, relation, &another, &another, relation} {
		foreign, err := c.reader.meet(rel)
		require.NoError(t, err)
		require.False(t, foreign)
	}
	require.Equal(t, []*pgoutput.Relation{relation, &another, relation}, p.relations)
}

func TestConfiguredTables(t *testing.T) {
	table := []identifier.Table{{Schema: "public", Name: "outbox"}}
	for name, test := range map[string]struct {
		cfg  replication.Config
		want []bool // for outbox and for another table
	}{
		"nothing is named":     {replication.Config{}, []bool{true, true}},
		"a table":              {replication.Config{Tables: table}, []bool{true, false}},
		"messages alone":       {replication.Config{Messages: []string{"m"}}, []bool{false, false}},
		"a table and messages": {replication.Config{Tables: table, Messages: []string{"m"}}, []bool{true, false}},
	} {
		c, _ := idle(t, Config{Replication: test.cfg})
		require.Equal(t, test.want, []bool{c.reader.configured(relation), c.reader.configured(elsewhere)}, name)
	}
}

// What may come often is logged at most once in a while, with how many there were since.
func TestLogsAFloodNowAndThen(t *testing.T) {
	loose := message("outbox", "b")
	for name, test := range map[string]struct {
		again time.Duration
		field string
		once  func(c *Connector)
	}{
		"foreign tables": {strangersAgain, "tables", func(c *Connector) { c.reader.isForeign(elsewhere) }},
		"loose messages": {looseAgain, "records", func(c *Connector) { _ = c.reader.passOver(loose) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				c, _ := idle(t, withMessages(Config{Logger: zap.New(core)}))
				for range 2 {
					test.once(c)
					require.Equal(t, 1, logs.Len())
					time.Sleep(test.again / 2)
				}
				test.once(c)
				require.Equal(t, 2, logs.Len())
				require.EqualValues(t, 1, logs.All()[0].ContextMap()[test.field])
				require.EqualValues(t, 2, logs.All()[1].ContextMap()[test.field])
			})
		})
	}
}

func TestFightsAreForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	for after, want := range map[time.Duration]int{fightsForget: 2, fightsForget + 1: 1} {
		var f fights
		f.count(true, 0, now)
		require.Equal(t, want, f.count(true, 0, now.Add(after)))
	}
}

// A batch's tags belong to events of several transactions, and the first offset of a partition is 0.
func TestSpansOfABatch(t *testing.T) {
	first, second := &traces.Span{Committed: time.Unix(1, 0)}, &traces.Span{Committed: time.Unix(2, 0)}
	tags := []sink.Tag{{Record: 0, Tag: "another's"}, {Record: 1, Tag: first}, {Record: 2, Tag: second}}
	require.Same(t, first, spanOf(tags, time.Unix(1, 0)))
	require.Same(t, second, spanOf(tags, time.Unix(2, 0)))
	require.Nil(t, spanOf(tags, time.Unix(3, 0)))

	c, _ := idle(t, Config{Traces: recorderTo(t, "http://127.0.0.1:1/v1/traces", 1, 0)})
	for base, want := range map[int64]int64{0: 2, 7: 9, -1: -5} {
		second.Offset = -5
		c.endSpans(&sink.Delivery{BaseOffset: base, Tags: tags}, time.Now())
		require.Equal(t, want, second.Offset, base)
	}
}
