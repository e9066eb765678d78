package slotmonitor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

// script is a source that answers what the test set last.
type script struct {
	mu     sync.Mutex
	slots  []slotRow
	err    error
	ticks  int
	closed bool
}

func (s *script) snapshot(context.Context) (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks++
	return Snapshot{At: time.Now(), Current: 2 << 30, Slots: s.slots}, s.err
}

func (s *script) close() { s.closed = true }

// set changes the answer and returns how often it was asked for since the last time.
func (s *script) set(slots []slotRow, err error) (ticks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ticks = s.ticks
	s.slots, s.err, s.ticks = slots, err, 0
	return ticks
}

func newScripted(t *testing.T, reg prometheus.Registerer, slots ...slotRow) (*Monitor, *script,
	*observer.ObservedLogs,
) {
	core, logs := observer.New(zap.DebugLevel)
	m, err := New(Config{DSN: func() (string, error) { return "", nil }, Logger: zap.New(core), Registerer: reg})
	require.NoError(t, err)
	src := &script{slots: slots}
	m.source = src
	return m, src, logs
}

func run(t *testing.T, m *Monitor) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func TestMonitorSurvivesErrorsAndLogsChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := slotRow{Name: "s", RestartLSN: lsn(1), ConfirmedFlushLSN: lsn(1), WALStatus: WALReserved}
		m, src, logs := newScripted(t, nil, big)
		stop := run(t, m)
		time.Sleep(time.Minute + time.Second)
		away := errors.New("the server is away")
		require.Equal(t, 13, src.set(nil, away), "one per five seconds")
		require.Len(t, m.Latest(), 1)
		require.Equal(t, alert.Warn, m.Latest()[0].Level)
		require.Equal(t, 1, logs.FilterMessage("alert fires").FilterField(zap.String("alert",
			"slot_retained_wal")).Len())

		time.Sleep(10 * time.Minute)
		_, err := m.State()
		require.ErrorIs(t, err, away)
		ticks := src.set([]slotRow{big}, nil)
		require.Greater(t, ticks, 20)
		require.Less(t, ticks, 200, "with backoff")
		require.Equal(t, 1, logs.FilterMessageSnippet("cannot ask").Len())
		require.Equal(t, 1, logs.FilterMessage("alert fires").FilterField(zap.String("alert", alert.Blind)).Len())
		require.Contains(t, m.Firing(), alert.Blind)
		require.Len(t, m.Latest(), 1, "the last answer stays to be looked at")

		time.Sleep(time.Minute)
		require.Equal(t, 1, logs.FilterMessage("alert is resolved").FilterField(zap.String("alert", alert.Blind)).Len())
		require.NotContains(t, m.Firing(), alert.Blind)
		require.Equal(t, 1, logs.FilterMessageSnippet("again").FilterMessageSnippet("reaches").Len())
		answered, err := m.State()
		require.NoError(t, err)
		require.Less(t, time.Since(answered), 6*time.Second)
		stop()
		require.True(t, src.closed)
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		a := slotRow{
			Name: "a", ActivePID: 3, RestartLSN: lsn(2<<30 - 1000), ConfirmedFlushLSN: lsn(2<<30 - 500),
			WALStatus: WALExtended, SafeWALSize: ptr(int64(5000)), Stats: &statsRow{SpillBytes: 7},
		}
		m, src, _ := newScripted(t, reg, a, slotRow{Name: "lost", WALStatus: WALLost})
		stop := run(t, m)
		time.Sleep(time.Minute + time.Second)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP cdc_outbox_slot_active 1 while a session reads the slot.
# TYPE cdc_outbox_slot_active gauge
cdc_outbox_slot_active{slot="a"} 1
cdc_outbox_slot_active{slot="lost"} 0
# HELP cdc_outbox_slot_confirmed_age_seconds Time since confirmed_flush_lsn moved.
# TYPE cdc_outbox_slot_confirmed_age_seconds gauge
cdc_outbox_slot_confirmed_age_seconds{slot="a"} 60
cdc_outbox_slot_confirmed_age_seconds{slot="lost"} 60
# HELP cdc_outbox_slot_growth_bytes_per_second Growth of the WAL the slot holds back, over the last minute.
# TYPE cdc_outbox_slot_growth_bytes_per_second gauge
cdc_outbox_slot_growth_bytes_per_second{slot="a"} 0
# HELP cdc_outbox_slot_inactive_seconds Time since a session read the slot, 0 while a session does, and for a `+
			`standby's copy.
# TYPE cdc_outbox_slot_inactive_seconds gauge
cdc_outbox_slot_inactive_seconds{slot="a"} 0
cdc_outbox_slot_inactive_seconds{slot="lost"} 60
# HELP cdc_outbox_slot_oldest_transaction_seconds Age of the server's oldest open transaction that has written, `+
			`which restart_lsn cannot pass; 0 where none is older than 10 s.
# TYPE cdc_outbox_slot_oldest_transaction_seconds gauge
cdc_outbox_slot_oldest_transaction_seconds{slot="a"} 0
cdc_outbox_slot_oldest_transaction_seconds{slot="lost"} 0
# HELP cdc_outbox_slot_retained_wal_bytes WAL the slot holds back: current position - restart_lsn.
# TYPE cdc_outbox_slot_retained_wal_bytes gauge
cdc_outbox_slot_retained_wal_bytes{slot="a"} 1000
# HELP cdc_outbox_slot_safe_wal_bytes WAL that may still be written before the slot is in danger of being lost; `+
			`absent without a limit.
# TYPE cdc_outbox_slot_safe_wal_bytes gauge
cdc_outbox_slot_safe_wal_bytes{slot="a"} 5000
# HELP cdc_outbox_slot_seconds_to_limit Time until max_slot_wal_keep_size at the present growth; +Inf while it does `+
			`not grow; absent without a limit.
# TYPE cdc_outbox_slot_seconds_to_limit gauge
cdc_outbox_slot_seconds_to_limit{slot="a"} +Inf
# HELP cdc_outbox_slot_spilled_bytes_total Decoded changes that did not fit into logical_decoding_work_mem and went `+
			`to disk.
# TYPE cdc_outbox_slot_spilled_bytes_total counter
cdc_outbox_slot_spilled_bytes_total{slot="a"} 7
# HELP cdc_outbox_slot_streamed_bytes_total Decoded changes sent to the reader before their commit.
# TYPE cdc_outbox_slot_streamed_bytes_total counter
cdc_outbox_slot_streamed_bytes_total{slot="a"} 0
# HELP cdc_outbox_slot_unconfirmed_wal_bytes WAL the slot's reader has not confirmed: current position - `+
			`confirmed_flush_lsn.
# TYPE cdc_outbox_slot_unconfirmed_wal_bytes gauge
cdc_outbox_slot_unconfirmed_wal_bytes{slot="a"} 500
# HELP cdc_outbox_slot_wal_status 1 for the slot's present wal_status, 0 for the others.
# TYPE cdc_outbox_slot_wal_status gauge
cdc_outbox_slot_wal_status{slot="a",status="extended"} 1
cdc_outbox_slot_wal_status{slot="a",status="lost"} 0
cdc_outbox_slot_wal_status{slot="a",status="reserved"} 0
cdc_outbox_slot_wal_status{slot="a",status="unreserved"} 0
cdc_outbox_slot_wal_status{slot="lost",status="extended"} 0
cdc_outbox_slot_wal_status{slot="lost",status="lost"} 1
cdc_outbox_slot_wal_status{slot="lost",status="reserved"} 0
cdc_outbox_slot_wal_status{slot="lost",status="unreserved"} 0
`)))
		src.set([]slotRow{a}, nil)
		time.Sleep(5 * time.Second)
		n, err := testutil.GatherAndCount(reg, "cdc_outbox_slot_active")
		require.NoError(t, err)
		require.Equal(t, 1, n, "a dropped slot has no series")

		src.set(nil, errors.New("away"))
		time.Sleep(20 * time.Second)
		n, err = testutil.GatherAndCount(reg)
		require.NoError(t, err)
		require.NotZero(t, n)
		time.Sleep(10 * time.Second)
		n, err = testutil.GatherAndCount(reg)
		require.NoError(t, err)
		require.Zero(t, n, "old figures are not shown as present ones")
		stop()
	})
}

// TestACopyIsNotUnread: Prometheus's rule CDCOutboxSlotUnread fires above 0, and no session can read a standby's copy.
//
// Bug (monitor): `slot_inactive_seconds` grew for a standby's copy. Cost: CDCOutboxSlotUnread on each monitored
// standby.
func TestACopyIsNotUnread(t *testing.T) {
	long := start.Add(-time.Hour)
	s := Slot{Name: "s", Synced: true, kept: true, RetainedBytes: 1 << 20, InactiveSince: &long, SampledAt: start}
	require.NoError(t, testutil.CollectAndCompare(collector{latest: func() []Slot { return []Slot{s} }},
		strings.NewReader(`
# HELP cdc_outbox_slot_inactive_seconds Time since a session read the slot, 0 while a session does, and for a `+
			`standby's copy.
# TYPE cdc_outbox_slot_inactive_seconds gauge
cdc_outbox_slot_inactive_seconds{slot="s"} 0
`), "cdc_outbox_slot_inactive_seconds"))
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{})
	require.Error(t, err)
	reg := prometheus.NewRegistry()
	cfg := Config{DSN: func() (string, error) { return "", nil }, Registerer: reg}
	_, err = New(cfg)
	require.NoError(t, err)
	_, err = New(cfg)
	require.ErrorContains(t, err, "register")
}
