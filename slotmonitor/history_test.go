package slotmonitor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lsn writes a position as Postgres does.
func lsn(bytes uint64) string { return fmt.Sprintf("%X/%X", bytes>>32, bytes&0xFFFFFFFF) }

// feed gives a history one snapshot per five seconds; retained and confirmed are distances from the position.
func feed(t *testing.T, h *history, n int, current func(i int) uint64, row func(i int) slotRow) Slot {
	t.Helper()
	var last Slot
	for i := range n {
		snap := Snapshot{
			At: start.Add(time.Duration(i) * 5 * time.Second), Current: current(i),
			Slots: []slotRow{row(i)},
		}
		slots, err := h.add(snap, Thresholds{})
		require.NoError(t, err)
		require.Len(t, slots, 1)
		last = slots[0]
	}
	return last
}

func TestGrowth(t *testing.T) {
	series := func(n int, retained func(i int) int64) []sample {
		var out []sample
		for i := range n {
			out = append(out, sample{start.Add(time.Duration(i) * 5 * time.Second), retained(i)})
		}
		return out
	}
	const window = time.Minute
	require.Nil(t, growth(nil, window))
	require.Nil(t, growth(series(6, func(int) int64 { return 1 }), window), "25 s are less than half a window")
	require.InDelta(t, 200, *growth(series(13, func(i int) int64 { return int64(1000 * i) }), window), 0.001)
	require.InDelta(t, 200, *growth(series(8, func(i int) int64 { return int64(1000 * i) }), window), 0.001)
	require.InDelta(t, -200, *growth(series(13, func(i int) int64 { return int64(100000 - 1000*i) }), window), 0.001)
	require.InDelta(t, 0, *growth(series(13, func(int) int64 { return 7 }), window), 0.001)
	require.InDelta(t, 0, *growth(series(13, func(i int) int64 { return int64(i % 3 * 16 << 20) }), window), 0.001,
		"the steps of restart_lsn on a busy healthy server are not growth")
}

func TestSecondsUntil(t *testing.T) {
	require.Nil(t, secondsUntil(nil, ptr(5.0)), "no limit")
	require.Nil(t, secondsUntil(ptr(int64(100)), nil), "growth not known yet")
	require.Nil(t, secondsUntil(ptr(int64(100)), ptr(-1.0)), "shrinking")
	require.Nil(t, secondsUntil(ptr(int64(100)), ptr(0.0)))
	require.Equal(t, 20.0, *secondsUntil(ptr(int64(100)), ptr(5.0)))
	require.Equal(t, 0.0, *secondsUntil(ptr(int64(-1)), ptr(-5.0)), "past it already")
}

func TestSlotFigures(t *testing.T) {
	h := newHistory(time.Minute)
	s := feed(t, h, 1, func(int) uint64 { return 1000 }, func(int) slotRow {
		return slotRow{
			Name: "s", Plugin: "pgoutput", Database: "db", ActivePID: 7, RestartLSN: lsn(600),
			ConfirmedFlushLSN: lsn(900), WALStatus: WALReserved,
		}
	})
	require.Equal(t, int64(400), s.RetainedBytes)
	require.Equal(t, int64(100), s.UnconfirmedBytes)
	require.True(t, s.Active)
	require.Nil(t, s.InactiveSince)
	require.Nil(t, s.GrowthPerSecond)
	require.Nil(t, s.SecondsToLimit)
	require.Equal(t, CauseIdle, s.Cause.Code)
}

func TestPositionsAheadCountAsZero(t *testing.T) {
	s := feed(t, newHistory(time.Minute), 1, func(int) uint64 { return 1000 }, func(int) slotRow {
		return slotRow{Name: "s", RestartLSN: lsn(1001), ConfirmedFlushLSN: lsn(2000)}
	})
	require.Zero(t, s.RetainedBytes)
	require.Zero(t, s.UnconfirmedBytes)
}

func TestGrowthAndLimitOverTime(t *testing.T) {
	h := newHistory(time.Minute)
	s := feed(t, h, 20, func(i int) uint64 { return uint64(5_000_000 * (i + 1)) }, func(int) slotRow {
		return slotRow{
			Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1), SafeWALSize: ptr(int64(60_000_000)),
			WALStatus: WALExtended,
		}
	})
	require.InDelta(t, 1e6, *s.GrowthPerSecond, 0.001)
	require.InDelta(t, 60, *s.SecondsToLimit, 0.001)
	feed(t, h, 400, func(i int) uint64 { return uint64(5_000_000 * (i + 1)) },
		func(int) slotRow { return slotRow{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1)} })
	require.LessOrEqual(t, len(h.slots["s"].samples), 181, "memory is bounded by the window")
}

func TestHistoryStartsAnew(t *testing.T) {
	full := func() *history {
		h := newHistory(time.Minute)
		s := feed(t, h, 13, func(i int) uint64 { return uint64(5_000_000 * (i + 1)) },
			func(int) slotRow { return slotRow{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1000)} })
		require.NotNil(t, s.GrowthPerSecond)
		return h
	}
	add := func(h *history, current uint64, row slotRow) Slot {
		slots, err := h.add(Snapshot{At: start.Add(65 * time.Second), Current: current, Slots: []slotRow{row}},
			Thresholds{})
		require.NoError(t, err)
		return slots[0]
	}
	require.NotNil(t, add(full(), 70_000_000, slotRow{
		Name: "s", RestartLSN: lsn(1),
		ConfirmedFlushLSN: lsn(1000),
	}).GrowthPerSecond)
	require.Nil(t, add(full(), 60_000_000, slotRow{
		Name: "s", RestartLSN: lsn(1),
		ConfirmedFlushLSN: lsn(1000),
	}).GrowthPerSecond, "another server")
	require.Nil(t, add(full(), 70_000_000, slotRow{
		Name: "s", RestartLSN: lsn(1),
		ConfirmedFlushLSN: lsn(999),
	}).GrowthPerSecond, "another slot of that name")
	require.Nil(t, add(full(), 70_000_000, slotRow{
		Name: "s", ConfirmedFlushLSN: lsn(1000),
		WALStatus: WALLost,
	}).GrowthPerSecond, "lost")

	h := full()
	slots, err := h.add(Snapshot{At: start.Add(65 * time.Second), Current: 70_000_000}, Thresholds{})
	require.NoError(t, err)
	require.Empty(t, slots)
	require.Empty(t, h.slots, "a slot that was dropped is forgotten")
}

// Bug (monitor): Before PostgreSQL 17 `status` said that no session had read the slot since the moment of the question;
// `slot` and `check` said nothing about it. Cost: an outage of hours looked as if it had just begun. Also:
// `TestSinceWhenASlotIsUnread` in `internal/postgres/setup`.
func TestInactiveSince(t *testing.T) {
	h := newHistory(time.Minute)
	row := slotRow{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1)}
	s := feed(t, h, 3, func(int) uint64 { return 1000 }, func(int) slotRow { return row })
	require.Equal(t, start, *s.InactiveSince, "seen by the monitor")
	require.True(t, s.InactiveAtLeast)
	require.Equal(t, "No session reads the slot; since when is not known, for 10 s at least.", s.Cause.Sentence)
	server := start.Add(-time.Hour)
	row.InactiveSince = &server
	s = feed(t, h, 3, func(int) uint64 { return 1000 }, func(int) slotRow { return row })
	require.Equal(t, server, *s.InactiveSince, "known by the server")
	require.False(t, s.InactiveAtLeast)
	row.ActivePID, row.InactiveSince = 3, nil
	s = feed(t, h, 1, func(int) uint64 { return 1000 }, func(int) slotRow { return row })
	require.Nil(t, s.InactiveSince)
	row.ActivePID = 0
	s = feed(t, h, 3, func(int) uint64 { return 1000 }, func(int) slotRow { return row })
	require.False(t, s.InactiveAtLeast, "the monitor saw its reader leave")
	require.Equal(t, "No session has read the slot since 2026-01-02T03:04:05Z (10 s).", s.Cause.Sentence)
}

func TestHolder(t *testing.T) {
	h := newHistory(time.Minute)
	at := func(seconds int, o *transactionRow) *Transaction {
		snap := Snapshot{At: start.Add(time.Duration(seconds) * time.Second)}
		if o != nil {
			snap.Open = []transactionRow{*o}
		}
		if old := h.transactions(snap); len(old) > 0 {
			return &old[0]
		}
		return nil
	}
	require.Nil(t, at(0, nil))
	require.Nil(t, at(0, &transactionRow{PID: 1, XID: "7", Age: ptr(9.0)}), "young")
	got := at(0, &transactionRow{PID: 1, XID: "7", Age: ptr(61.0), Database: "db", Application: "svc"})
	require.Equal(t, `the transaction of pid 1 (application "svc", database "db"), open for 1 min 1 s`, got.String())
	require.Nil(t, at(0, &transactionRow{PID: 1, XID: "8"}),
		"its age is hidden and it was just seen for the first time")
	got = at(30, &transactionRow{PID: 1, XID: "8"})
	require.Equal(t, 30*time.Second, got.Age)
	require.True(t, got.AtLeast)
	require.Contains(t, got.String(), "open for at least 30 s")
	require.Nil(t, at(35, &transactionRow{PID: 1, XID: "9"}), "the same session, the next transaction")
	require.Contains(t, at(0, &transactionRow{GID: "g", Age: ptr(99.0), Database: "db"}).String(),
		`prepared transaction "g"`)
}

func TestParseSnapshot(t *testing.T) {
	s, err := parseSnapshot([]byte(`{"slots": [{"slot_name": "s", "plugin": "pgoutput", "active_pid": null,
		"restart_lsn": null, "xmin": null, "brand_new_column": 3}],
		"open": [], "standby": false, "keep_mb": 64, "current": "1/2", "at": "2026-01-02T03:04:05.678901+00:00"}`))
	require.NoError(t, err)
	require.Equal(t, uint64(1<<32|2), s.Current)
	require.Equal(t, int64(64<<20), *s.KeepSize)
	require.Equal(t, "s", s.Slots[0].Name)
	require.Nil(t, s.Slots[0].Stats)
	s, err = parseSnapshot([]byte(`{"slots": [], "keep_mb": -1, "current": null, "at": "2026-01-02T03:04:05Z"}`))
	require.NoError(t, err)
	require.Nil(t, s.KeepSize)
	require.Zero(t, s.Current)
	for _, bad := range []string{
		``, `[]`, `{"current": "x", "at": "2026-01-02T03:04:05Z"}`, `{"current": "1/2/3"}`,
		`{"current": "100000000/0"}`,
	} {
		_, err := parseSnapshot([]byte(bad))
		require.Error(t, err, bad)
	}
	_, err = newHistory(time.Minute).add(Snapshot{Slots: []slotRow{{Name: "s", RestartLSN: "zz"}}}, Thresholds{})
	require.ErrorContains(t, err, `slot "s"`)
}

func TestTwoRates(t *testing.T) {
	h := newHistory(time.Minute)
	retained := uint64(0)
	s := feed(t, h, 190, func(i int) uint64 {
		if i < 160 {
			retained += 500_000
		} else {
			retained += 50_000_000
		}
		return retained
	}, func(int) slotRow { return slotRow{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1)} })
	require.InDelta(t, 1e7, *s.GrowthPerSecond, 1)
	require.Less(t, *s.Growth15m, 1e6, "a burst is not a trend")
}

func TestTimeToAFullVolume(t *testing.T) {
	filled := func(volume int64, files *int64) Slot {
		h := newHistory(time.Minute)
		h.volume = volume
		var last Slot
		for i := range 13 {
			slots, err := h.add(Snapshot{
				At: start.Add(time.Duration(i) * 5 * time.Second), Current: uint64(5_000_000*i + 1),
				WALFiles: files,
				Slots:    []slotRow{{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1)}},
			}, Thresholds{})
			require.NoError(t, err)
			last = slots[0]
		}
		return last
	}
	require.Nil(t, filled(0, nil).SecondsToFull, "its size is not configured")
	require.InDelta(t, 40, *filled(100_000_000, nil).SecondsToFull, 0.1)
	require.InDelta(t, 10, *filled(100_000_000, ptr(int64(90_000_000))).SecondsToFull, 0.1,
		"other things keep log, too")
	require.InDelta(t, 40, *filled(100_000_000, ptr(int64(5))).SecondsToFull, 0.1)
	require.Zero(t, *filled(50_000_000, nil).SecondsToFull)
}

func TestConfirmedSince(t *testing.T) {
	h := newHistory(time.Minute)
	row := slotRow{Name: "s", ActivePID: 1, RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(5)}
	require.Equal(t, start, *feed(t, h, 4, func(int) uint64 { return 1000 },
		func(int) slotRow { return row }).ConfirmedSince)
	s := feed(t, h, 4, func(int) uint64 { return 1000 }, func(i int) slotRow {
		row.ConfirmedFlushLSN = lsn(uint64(10 + min(i, 2)))
		return row
	})
	require.Equal(t, start.Add(10*time.Second), *s.ConfirmedSince)
}

// TestPromotedCopy: a slot that came with a promotion stays "synced" on the new primary, where nothing moves it but its
// reader.
//
// Bug (monitor): A slot that came with a promotion stays `synced`, and counted as a standby's copy on the new primary.
// Cost: after a failover no alert for a slot that no session reads. Also: `TestSinceWhenAPromotedCopyIsUnread` in
// `internal/postgres/setup`.
func TestPromotedCopy(t *testing.T) {
	h := newHistory(time.Minute)
	row := slotRow{Name: "s", Synced: true, RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1), WALStatus: WALReserved}
	at := func(after time.Duration, standby bool) Slot {
		slots, err := h.add(Snapshot{
			At: start.Add(after), Current: 1 << 30, Standby: standby, Slots: []slotRow{row},
		}, DefaultThresholds)
		require.NoError(t, err)
		return slots[0]
	}
	at(0, true)
	copied := at(2*time.Minute, true)
	require.True(t, copied.Synced)
	require.Equal(t, CauseStandbyCopy, copied.Cause.Code)
	promoted := at(4*time.Minute, false)
	require.False(t, promoted.Synced)
	require.Equal(t, CauseNoConsumer, promoted.Cause.Code)
	require.True(t, slices.ContainsFunc(promoted.Alerts, func(a alert.Alert) bool { return a.Rule == "slot_inactive" }))
}

// TestALostSlotKeepsNothing: of what invalidates a slot, only the removal of WAL takes its restart_lsn away.
//
// Bug (monitor): A slot invalidated with its restart_lsn still counted as holding back WAL. Cost: retained WAL that
// grows, and a forecast for a disk that does not fill.
func TestALostSlotKeepsNothing(t *testing.T) {
	h := newHistory(prompt)
	h.volume = 1 << 30
	var s Slot
	for i := range 30 {
		slots, err := h.add(Snapshot{
			At: start.Add(time.Duration(i) * 5 * time.Second), Current: uint64(i+1) << 25,
			Slots: []slotRow{{
				Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1), WALStatus: WALLost,
				InvalidationReason: "idle_timeout",
			}},
		}, DefaultThresholds)
		require.NoError(t, err)
		s = slots[0]
	}
	require.Zero(t, s.RetainedBytes)
	require.Nil(t, s.GrowthPerSecond)
	require.Nil(t, s.SecondsToFull)
	require.Len(t, s.Alerts, 1, "slot_lost, and not that its WAL fills the disk: %v", s.Alerts)
}
