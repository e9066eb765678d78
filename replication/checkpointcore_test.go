package replication

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// stillCheckpoint is the checkpoint of a stream on timeline 3 of cluster 1, with what it logs.
func stillCheckpoint() (*checkpoint, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	cfg := &Config{
		Slot: "s", Checkpoint: identifier.Table{Schema: "public", Name: "m"}, Logger: zap.New(core),
		Confirmed: func() lsn.LSN { return 700 },
	}
	id := Identity{
		SystemID: "1", Timeline: 3, WALEnd: 10000, ConfirmedFlush: 500, ServerVersion: 170000,
		Past: []postgres.TimelineSwitch{{Timeline: 1, At: 100}, {Timeline: 2, At: 200}},
		slot: postgres.Slot{ConfirmedFlush: 500},
	}
	return &checkpoint{cfg: cfg, id: id, begun: id, numbered: true}, logs
}

// What the process has confirmed counts on the server and the timeline that it confirmed it on.
func TestCheckpointOwnPosition(t *testing.T) {
	cp, _ := stillCheckpoint()
	for _, test := range []struct {
		system   string
		timeline int32
		want     lsn.LSN
	}{{"1", 3, 700}, {"2", 3, 0}, {"1", 4, 0}, {"2", 4, 0}} {
		require.Equal(t, test.want, cp.ownPosition(&Identity{SystemID: test.system, Timeline: test.timeline}))
	}
}

// On a timeline that branched off the row's, what was published before the branch counts.
func TestCheckpointReached(t *testing.T) {
	cp, _ := stillCheckpoint()
	for _, test := range []struct {
		timeline int32
		at, want lsn.LSN
	}{{3, 900, 900}, {2, 150, 150}, {2, 900, 200}, {1, 900, 100}, {4, 900, 0}} {
		require.Equal(t, test.want, cp.reached(&postgres.Checkpoint{Timeline: test.timeline, Position: test.at}))
	}
}

// The stream starts at a row that is ahead of the slot and within the log, and that a numbered write has touched.
func TestCheckpointStart(t *testing.T) {
	row := &postgres.Checkpoint{Writes: 1}
	for name, test := range map[string]struct {
		row      *postgres.Checkpoint
		position lsn.LSN
		starts   bool
	}{
		"ahead":                  {row, 501, true},
		"at the slot":            {row, 500, false},
		"before it":              {row, 499, false},
		"at the end of the log":  {row, 10000, true},
		"beyond the log":         {row, 10001, false},
		"no row":                 {nil, 501, false},
		"a row without a number": {&postgres.Checkpoint{}, 501, false},
	} {
		cp, logs := stillCheckpoint()
		id := cp.id
		cp.startAt(&id, test.row, test.position)
		want := lsn.LSN(500)
		if test.starts {
			want = test.position
		}
		require.Equal(t, want, id.ConfirmedFlush, name)
		require.Equal(t, test.starts, logs.Len() == 1, name)
	}
}

// Bug (checkpoint): A connector that could not use the checkpoint began at the slot's older position, and when it
// could, after an interruption, it jumped ahead to the checkpoint. Cost: the events in between that it had published
// again stayed the last ones of their keys, with newer ones before them. Found by seed 444083.
func TestCheckpointThatCouldNotBeUsedIsNoPlaceToStart(t *testing.T) {
	row := &postgres.Checkpoint{Writes: 1}
	cp, _ := stillCheckpoint()
	require.NoError(t, cp.skip(t.Context(), &pgconn.PgError{Code: "42501"}))
	for _, test := range []struct{ slot, want lsn.LSN }{
		{500, 500}, {700, 700}, // the row is at 900
		{900, 900}, {600, 900}, // the stream was there: from now on the row is the better place again
	} {
		id := cp.id
		id.ConfirmedFlush = test.slot
		cp.startAt(&id, row, 900)
		require.Equal(t, test.want, id.ConfirmedFlush)
	}
}

// A checkpoint that is in use is not passed over for want of a right; one that no mark knows is, and one that was
// dropped.
//
// Bug (checkpoint): A process whose role had lost the right to the checkpoint began at the slot's older position and
// was killed, and the next one, with the right, began at the checkpoint. Cost: the events that the first one had
// published again stayed the last ones of their keys.
func TestCheckpointInUseIsNotPassedOver(t *testing.T) {
	mark := Mark{SystemID: "1", Timeline: 3, Writes: 4, Position: 450, Published: 449}
	for name, test := range map[string]struct {
		code  string
		mark  Mark
		waits bool
	}{
		"no right":         {"42501", mark, true},
		"no right, unused": {"42501", Mark{}, false},
		"no table":         {"42P01", mark, false},
	} {
		cp, logs := stillCheckpoint()
		require.NoError(t, cp.skip(t.Context(), &pgconn.PgError{Code: test.code, Message: "permission denied"}), name)
		require.NoError(t, cp.skip(t.Context(), &pgconn.PgError{Code: test.code, Message: "permission denied"}), name)
		require.Equal(t, 1, logs.Len(), "%s: once", name)
		s := &Stream{cfg: cp.cfg, identity: cp.id, checkpoint: cp}
		err := s.Compare(t.Context(), test.mark, "Kafka")
		if !test.waits {
			require.NoError(t, err, name)
			continue
		}
		var why *fault.Error
		require.ErrorAs(t, err, &why, name)
		require.Equal(t, fault.Retry, why.Kind)
		require.Equal(t, []string{`GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "public"."m" TO ROLE;`}, why.Commands)
		require.ErrorContains(t, err, `Kafka knows it as the checkpoint of slot "s"`)
	}
}

// A mark never takes back what was published, and says no more than the stream has passed on.
func TestCheckpointMarks(t *testing.T) {
	for name, test := range map[string]struct {
		row       uint64 // the stream's last; 0: there is no stream
		position  lsn.LSN
		writes    int64
		published lsn.LSN
		given     bool
	}{
		"rows up to the position":    {950, 1000, 4, 950, true},
		"rows beyond it":             {1500, 1000, 4, 999, true},
		"an old row":                 {50, 1000, 4, 100, true},
		"no stream":                  {0, 1000, 4, 100, true},
		"no position":                {950, 0, 4, 100, true},
		"the first position":         {950, 1, 4, 100, true},
		"a table without the number": {950, 1000, 0, 950, false},
	} {
		cp, _ := stillCheckpoint()
		var given []Mark
		cp.cfg.Marked = func(m Mark) { given = append(given, m) }
		cp.last.Published = 100
		if test.row > 0 {
			var last atomic.Uint64
			last.Store(test.row)
			cp.follow(&last)
		}
		cp.mark(test.position, test.writes, time.Unix(1, 0))
		want := Mark{
			SystemID: "1", Timeline: 3, Writes: test.writes, Position: test.position, Published: test.published,
			At: time.Unix(1, 0),
		}
		require.Equal(t, want, cp.last, name)
		require.Equal(t, test.given, len(given) == 1, name)
	}
	cp, _ := stillCheckpoint()
	cp.mark(1000, 4, time.Unix(1, 0))
	require.EqualValues(t, 4, cp.last.Writes, "no function to give it to")
}

// A row with a lower number than this process has written is refused, on the cluster that it was written on.
func TestCheckpointComparesItsOwnWrites(t *testing.T) {
	last := Mark{SystemID: "1", Timeline: 3, Writes: 7, Position: 400, Published: 300}
	another := last
	another.SystemID = "2"
	for name, test := range map[string]struct {
		last    Mark
		row     *postgres.Checkpoint
		refused bool
		writes  int64
	}{
		"as it was":             {last, &postgres.Checkpoint{Timeline: 3, Position: 400, Writes: 7}, false, 7},
		"later":                 {last, &postgres.Checkpoint{Timeline: 3, Position: 400, Writes: 9}, false, 7},
		"older":                 {last, &postgres.Checkpoint{Timeline: 3, Position: 400, Writes: 6}, true, 7},
		"new":                   {last, &postgres.Checkpoint{Timeline: 3, Position: 450}, false, 0},
		"none, the slot is far": {last, nil, false, 0},
		"another cluster":       {another, &postgres.Checkpoint{Timeline: 3, Position: 400, Writes: 1}, false, 7},
	} {
		cp, _ := stillCheckpoint()
		cp.last = test.last
		err := cp.compareOwn(test.row)
		require.Equal(t, test.refused, err != nil, name)
		if test.refused {
			require.Equal(t, fault.Operator, fault.KindOf(err), name)
		}
		require.Equal(t, test.writes, cp.last.Writes, name)
	}
}

// A failover that lost events is logged once, and again where more turns out to be lost. Without numbers only the
// positions count.
func TestCheckpointReportsAFailoverOnce(t *testing.T) {
	cp, logs := stillCheckpoint()
	cp.id.slot = postgres.Slot{ConfirmedFlush: 150, Synced: true}
	for _, step := range []struct {
		published lsn.LSN
		logged    int
	}{{250, 1}, {250, 1}, {240, 1}, {251, 2}} {
		require.NoError(t, cp.judge(Mark{SystemID: "1", Timeline: 2, Writes: 9, Published: step.published}, "h", nil))
		require.Equal(t, step.logged, logs.Len())
	}
	require.NoError(t, cp.judge(Mark{SystemID: "1", Timeline: 2, Writes: 9, Published: 199}, "h", nil))
	require.Equal(t, 2, logs.Len(), "nothing was lost")

	older := &postgres.Checkpoint{Timeline: 3, Position: 400, Writes: 1}
	m := Mark{SystemID: "1", Timeline: 3, Writes: 9, Published: 300}
	require.Error(t, cp.judge(m, "h", older))
	cp.numbered = false
	require.NoError(t, cp.judge(m, "h", older))
}

// What was kept raises number and positions, and a mark of another timeline bounds them, this process's own one too.
//
// Bug (standbys): An instance that had relayed before a failover, and came back after another one, took its own
// published position along to the new timeline. Cost: exit 3 of both instances, since the server seemed to be put back.
func TestCheckpointAdopts(t *testing.T) {
	for name, test := range map[string]struct {
		own, kept Mark
		stored    uint64
		writes    int64
		published lsn.LSN
	}{
		"nothing":               {Mark{Timeline: 3}, Mark{}, 900, 5, 899},
		"nothing, no position":  {Mark{Timeline: 3}, Mark{}, 0, 5, 400},
		"nothing, none of ours": {Mark{Timeline: 2}, Mark{}, 300, 5, 299},
		"of this timeline":      {Mark{Timeline: 3}, Mark{Timeline: 3, Writes: 8, Published: 600}, 900, 8, 600},
		"an older one of it":    {Mark{Timeline: 3}, Mark{Timeline: 3, Writes: 4, Published: 300}, 900, 5, 400},
		"of another":            {Mark{Timeline: 2}, Mark{Timeline: 2, Writes: 8, Published: 500}, 900, 8, 500},
		"of another, beyond":    {Mark{Timeline: 3}, Mark{Timeline: 2, Writes: 8, Published: 1000}, 900, 8, 899},
		"ours beyond":           {Mark{Timeline: 2}, Mark{Timeline: 3, Writes: 8, Published: 100}, 300, 8, 299},
		"ours of another server": {
			Mark{Timeline: 3, SystemID: "2"}, Mark{Timeline: 3, Writes: 8, Published: 100}, 300, 8, 299,
		},
	} {
		cp, _ := stillCheckpoint()
		for _, m := range []*Mark{&test.own, &test.kept} {
			if *m != (Mark{}) && m.SystemID == "" {
				m.SystemID = cp.id.SystemID
			}
		}
		cp.last = test.own
		cp.last.Writes, cp.last.Published = 5, 400
		cp.stored.Store(test.stored)
		cp.adopt(test.kept)
		require.Equal(t, []any{test.writes, test.published}, []any{cp.last.Writes, cp.last.Published}, name)
	}
}

func TestCheckpointParsesRows(t *testing.T) {
	cp, _ := stillCheckpoint()
	row, err := cp.parse([]byte(`{"system_id":"1","timeline":3,"position":"0/64","writes":9}`))
	require.NoError(t, err)
	require.Equal(t, &postgres.Checkpoint{SystemID: "1", Timeline: 3, Position: 100, Writes: 9}, row)
	require.True(t, cp.numbered)
	row, err = cp.parse([]byte(`{"system_id":"1","timeline":3,"position":"0/64"}`))
	require.NoError(t, err)
	require.Equal(t, &postgres.Checkpoint{SystemID: "1", Timeline: 3, Position: 100}, row)
	require.False(t, cp.numbered)
	for _, bad := range []string{`{`, `{"position":"x"}`} {
		_, err := cp.parse([]byte(bad))
		require.Equal(t, fault.Operator, fault.KindOf(err))
	}
}

// The end of a failure is logged where its beginning was.
func TestCheckpointSaysWhenItIsWrittenAgain(t *testing.T) {
	for name, test := range map[string]struct {
		off     bool
		failure *checkpointFailure
		says    int
	}{
		"nothing was wrong":    {false, nil, 0},
		"it was off":           {true, nil, 1},
		"it failed":            {false, &checkpointFailure{logged: true}, 1},
		"it failed for little": {false, &checkpointFailure{}, 0},
		"off, not logged":      {true, &checkpointFailure{}, 1},
	} {
		cp, logs := stillCheckpoint()
		cp.off.Store(test.off)
		if test.failure != nil {
			cp.failing.Store(test.failure)
		}
		cp.succeeded(1)
		require.Equal(t, test.says, logs.Len(), name)
		require.False(t, cp.off.Load(), name)
		require.Nil(t, cp.failing.Load(), name)
	}
}

// Without a checkpoint that can be used, what is kept elsewhere is compared with the server alone.
func TestCompareWithoutACheckpoint(t *testing.T) {
	for _, off := range []bool{false, true} {
		for name, test := range map[string]struct {
			kept    Mark
			allowed bool
			logged  int
		}{
			"nothing":          {Mark{}, true, 0},
			"within the log":   {Mark{SystemID: "1", Timeline: 3, Writes: 9, Published: 9999}, true, 0},
			"beyond the log":   {Mark{SystemID: "1", Timeline: 3, Published: 10000}, false, 0},
			"a late promotion": {Mark{SystemID: "1", Timeline: 2, Published: 250}, true, 1},
		} {
			cp, logs := stillCheckpoint()
			id := cp.id
			id.slot = postgres.Slot{ConfirmedFlush: 150, Synced: true}
			s := &Stream{cfg: cp.cfg, identity: id}
			if off {
				cp.off.Store(true)
				s.checkpoint = cp
			}
			err := s.Compare(t.Context(), test.kept, "h")
			require.Equal(t, test.allowed, err == nil, name)
			require.Equal(t, test.logged, logs.Len(), name)
		}
	}
}

// A primary that shuts down is no reason to leave its standby.
func TestWhichServerShutsDown(t *testing.T) {
	shutdown := &pgconn.PgError{Code: sqlstate.CannotConnectNow}
	cp := &checkpoint{}
	require.True(t, cp.nearShutsDown(shutdown))
	require.False(t, cp.nearShutsDown(&farError{shutdown}))
	require.False(t, cp.nearShutsDown(errors.New("cut")))
	require.False(t, cp.nearShutsDown(&farError{errors.New("cut")}))
}
