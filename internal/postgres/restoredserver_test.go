package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// server is one on timeline 3, which branched off timeline 2 at 5000 and with that off timeline 1 at 2000. Its row has
// write 10 at 9000.
func server(change func(*MarkedServer)) MarkedServer {
	s := MarkedServer{
		ServerPosition: ServerPosition{SystemID: "1", Timeline: 3, WALEnd: 10000}, Version: 170007,
		Past: []TimelineSwitch{{1, 2000}, {2, 5000}},
		Slot: Slot{ConfirmedFlush: 8000}, Row: &Checkpoint{SystemID: "1", Timeline: 3, Position: 9000, Writes: 10},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func TestMarkCompare(t *testing.T) {
	mark := func(timeline int32, writes int64, published uint64) Mark {
		return Mark{SystemID: "1", Timeline: timeline, Writes: writes, Position: 8500, Published: lsn.LSN(published)}
	}
	row := func(writes int64, position uint64) func(*MarkedServer) {
		return func(s *MarkedServer) { s.Row = &Checkpoint{Timeline: 3, Writes: writes, Position: lsn.LSN(position)} }
	}
	slot := func(version int, confirmed uint64, synced, failover bool) func(*MarkedServer) {
		return func(s *MarkedServer) {
			s.Version = version
			s.Slot = Slot{ConfirmedFlush: lsn.LSN(confirmed), Synced: synced, Failover: failover}
		}
	}
	for name, test := range map[string]struct {
		mark   Mark
		server func(*MarkedServer)
		want   Verdict
	}{
		"no mark":                   {Mark{}, nil, SameHistory},
		"the row's own number":      {mark(3, 10, 8000), nil, SameHistory},
		"an older number":           {mark(3, 9, 8000), nil, SameHistory},
		"one write more":            {mark(3, 11, 100), nil, Restored},
		"many more, log grown past": {mark(3, 99, 8000), nil, Restored},
		"published beyond the log":  {mark(3, 10, 10000), nil, Restored},
		"beyond it, without numbers": {
			mark(3, 0, 20000), func(s *MarkedServer) { s.Row = nil }, Restored,
		},
		"a hot standby replays": {
			mark(3, 10, 20000), func(s *MarkedServer) { s.InRecovery = true }, SameHistory,
		},
		"an earlier version's table": {mark(3, 0, 8000), row(0, 100), SameHistory},
		"a new row, a new slot":      {mark(3, 11, 8000), row(0, 9500), SameHistory},
		"a new row, an old slot":     {mark(3, 11, 8000), row(0, 8000), Restored},
		"no checkpoint in use": {
			mark(3, 11, 8000), func(s *MarkedServer) { s.Row = nil }, SameHistory,
		},
		"published before the branch":            {mark(2, 11, 4999), nil, SameHistory},
		"before the older branch":                {mark(1, 99, 1999), nil, SameHistory},
		"after it, slot synchronized":            {mark(2, 11, 5000), slot(170000, 4000, true, true), FailedOver},
		"after it, slot not synchronized":        {mark(2, 11, 5000), slot(170000, 4000, false, false), Restored},
		"after it, a primary's image":            {mark(2, 11, 5000), slot(170000, 4000, false, true), Restored},
		"after it, slot created on the timeline": {mark(2, 11, 5000), slot(170000, 5001, false, false), Restored},
		"after it, slot copied by a tool":        {mark(2, 11, 5000), slot(160004, 4000, false, false), FailedOver},
		"16, slot created on the timeline":       {mark(2, 11, 5000), slot(160004, 5001, false, false), Restored},
		"after the older branch":                 {mark(1, 3, 2000), slot(170000, 1000, true, false), FailedOver},
		"a hot standby was promoted": {
			mark(2, 11, 7000), func(s *MarkedServer) { s.HotStandby = true }, SameHistory,
		},
		"a later timeline":            {mark(4, 9, 100), nil, Restored},
		"a sibling that was promoted": {mark(2, 9, 100), func(s *MarkedServer) { s.Past = s.Past[:1] }, Restored},
		"an unknown past, same number": {
			mark(2, 10, 7000), func(s *MarkedServer) { s.Past = nil }, SameHistory,
		},
		"an unknown past, no numbers": {
			mark(2, 0, 100), func(s *MarkedServer) { s.Past = nil }, Restored,
		},
		"after it, slot at the branch": {mark(2, 11, 5000), slot(170000, 5000, true, true), FailedOver},
		"a new row, at the mark":       {mark(3, 11, 8499), row(0, 8500), SameHistory},
		"a new row, at what is out":    {mark(3, 11, 8500), row(0, 8500), Restored},
		"an unknown past, lower":       {mark(2, 11, 100), func(s *MarkedServer) { s.Past = nil }, Restored},
	} {
		require.Equal(t, test.want, test.mark.Compare(server(test.server)), name)
	}
}

// The position of a transaction counts where it is of the mark's timeline; otherwise it replaces the mark's.
func TestMarkOf(t *testing.T) {
	m := Mark{Timeline: 2, Writes: 7, Position: 0x300, Published: 0x200}
	marked := func(timeline int32, published lsn.LSN) Mark {
		return Mark{SystemID: "1", Timeline: timeline, Writes: 7, Position: 0x300, Published: published}
	}
	for name, test := range map[string]struct {
		timeline int32
		commit   lsn.LSN
		m        Mark
		want     Mark
	}{
		"nothing":              {3, 0, Mark{Timeline: 2, Position: 1}, Mark{}},
		"a mark alone":         {3, 0, m, marked(2, 0x200)},
		"a position alone":     {3, 0x100, Mark{}, Mark{SystemID: "1", Timeline: 3, Published: 0x100}},
		"an earlier position":  {2, 0x100, m, marked(2, 0x200)},
		"a later one":          {2, 0x400, m, marked(2, 0x400)},
		"of another timeline":  {3, 0x100, m, marked(3, 0x100)},
		"of an older timeline": {1, 0x400, m, marked(1, 0x400)},
	} {
		require.Equal(t, test.want, MarkOf("1", test.timeline, test.commit, test.m), name)
	}
}

// TestMarkJudgeSaysWhatIsMissing, since when, and what to do.
func TestMarkJudgeSaysWhatIsMissing(t *testing.T) {
	m := Mark{SystemID: "1", Timeline: 3, Writes: 57, Published: 0x2000, At: time.Unix(1700000000, 0)}
	for _, test := range []struct {
		server func(*MarkedServer)
		says   string
	}{
		{nil, "has write 10 of the slot's row, and Kafka knows of write 57"},
		{func(s *MarkedServer) { s.Row.Writes = 57; s.WALEnd = 0x1000 }, "its log ends at 0/1000"},
		{func(s *MarkedServer) { s.Timeline = 4; s.Past = []TimelineSwitch{{3, 0x1500}} }, "branched off timeline 3 " +
			"at 0/1500"},
		{func(s *MarkedServer) { s.Timeline = 2; s.Past = nil }, "to which timeline 3"},
	} {
		failedOver, err := m.Judge(Objects{Slot: "s"}, "Kafka", server(test.server))
		require.False(t, failedOver)
		require.Equal(t, fault.Operator, fault.KindOf(err))
		require.ErrorContains(t, err, test.says)
		require.ErrorContains(t, err, "events up to 0/2000, written at 2023-11-14T22:13:20Z, that this server may "+
			"not have")
		_, remedy := fault.Split(err)
		require.Contains(t, remedy.Commands, "cdc-outbox slot accept")
	}
}

func TestParseTimelineHistory(t *testing.T) {
	past, err := ParseTimelineHistory("1\t0/3000028\tno recovery target specified\n\n# a remark\n2\t1A/5\tbefore " +
		"2024\n")
	require.NoError(t, err)
	require.Equal(t, []TimelineSwitch{{1, 0x3000028}, {2, 0x1A00000005}}, past)
	for _, bad := range []string{"1", "x\t0/1", "1\tx"} {
		_, err := ParseTimelineHistory(bad)
		require.Error(t, err, bad)
	}
}
