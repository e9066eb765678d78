package replication

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestDecodingOnAStandby: setup makes each thing where it belongs, the stream brings the rows, the position is
// remembered on the primary before the slot moves, and a process that is killed goes on.
func TestDecodingOnAStandby(t *testing.T) {
	t.Parallel()
	r := newStandby(t, standbyVersion(t), nil, nil)
	require.NoError(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true),
		"an idle primary, so the slot would wait for ever without pg_log_standby_snapshot()")
	require.True(t, r.slotThere(t).Exists)
	for _, f := range setup.Preflight(t.Context(), r.dsn(), r.cfg) {
		if f.Level != preflight.OK {
			require.Contains(t, []string{"max_slot_wal_keep_size", "table public.outbox"}, f.Subject, "%+v", f)
		}
	}
	r.insertOn(t, r.Server, 1, 20)
	require.NoError(t, Run(t.Context(), r.Config, func(ctx context.Context, s *Stream) error {
		require.True(t, s.Identity().InRecovery)
		ids, err := r.ids(s, 20)
		require.NoError(t, err)
		require.Equal(t, numbers(1, 20), ids)
		return s.Finish(ctx)
	}))
	at := lsn.LSN(r.confirmed.Load())
	require.Equal(t, at, r.slotThere(t).ConfirmedFlush,
		"Finish waits for the standby to have what was written on the primary")
	require.Equal(t, at, r.rememberedOn(t, r.standby))

	r.insertOn(t, r.Server, 21, 30)
	require.NoError(t, Run(t.Context(), r.Config, func(_ context.Context, s *Stream) error { // and is killed
		ids, err := r.ids(s, 10)
		require.Equal(t, numbers(21, 30), ids)
		return err
	}))
	r.confirmed.Store(0)
	require.NoError(t, Run(t.Context(), r.Config, func(ctx context.Context, s *Stream) error {
		ids, err := r.ids(s, 10)
		require.Equal(t, numbers(21, 30), ids)
		require.NoError(t, err)
		return s.Finish(ctx)
	}))
	r.cfg.Columns.ID = "id"
	rows, err := outboxtable.Open(t.Context(), r.dsn(), r.cfg, r.cfg.Tables[0], outboxtable.Filter{})
	require.NoError(t, err)
	end, err := rows.WALEnd(t.Context())
	rows.Close()
	require.NoError(t, err, "repair asks the standby")
	require.GreaterOrEqual(t, end, lsn.LSN(r.confirmed.Load()))
	r.insertOn(t, r.Server, 31, 32)
	require.NoError(t, Run(t.Context(), r.Config, func(ctx context.Context, s *Stream) error {
		ids, err := r.ids(s, 2)
		require.Equal(t, numbers(31, 32), ids)
		require.NoError(t, err)
		_, err = setup.AwaitCaughtUp(ctx, r.dsn(), r.cfg, 10*time.Millisecond, 0)
		require.NoError(t, err)
		return s.Finish(ctx)
	}))
	at = lsn.LSN(r.confirmed.Load())

	report, err := setup.ReportSlot(t.Context(), r.dsn(), r.cfg)
	require.NoError(t, err)
	require.Equal(t, "usable, and where it was left", report.Verdict)
	require.True(t, report.InRecovery)

	report, err = setup.RecreateSlot(t.Context(), r.dsn(), r.cfg)
	require.NoError(t, err)
	require.Greater(t, report.ConfirmedFlushLSN, at.String())
	require.Equal(t, "usable, and where it was left", report.Verdict)

	_, err = setup.Teardown(t.Context(), r.dsn(), r.cfg, false)
	require.NoError(t, err)
	require.False(t, r.slotThere(t).Exists)
}

// TestStandbyPromoted: the slot lives on through the promotion of its own server, and so does the stream; nothing is
// missing, and what is remembered goes with it, however far the rest of the primary got.
func TestStandbyPromoted(t *testing.T) {
	t.Parallel()
	r := newStandby(t, standbyVersion(t), nil, nil)
	require.NoError(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true))
	seen := map[string]int{}
	promoted := make(chan struct{})
	go func() { // the load, up to the moment of the promotion and from then on there
		defer close(promoted)
		r.insertOn(t, r.Server, 1, 300)
		awaitRow(t, r, 300)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := r.standby.Promote(ctx); err != nil {
			t.Error(err)
		}
		r.Kill()
		r.insertOn(t, r.standby, 301, 600)
	}()
	// A server that was promoted ends its streams (walsender.c), perhaps only after the last row.
	streams, committed := 0, 0
	limit, end := context.WithTimeout(t.Context(), 3*time.Minute)
	defer end()
	r.OnIdentity = func(id Identity) error {
		if id.TimelineChanged {
			r.confirmed.Store(uint64(id.ConfirmedFlush)) // as the connector rewinds its tracker
		}
		return nil
	}
	require.NoError(t, Run(limit, r.Config, func(ctx context.Context, s *Stream) error {
		streams++
		for committed < 600 {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			switch m.Kind {
			case pgoutput.KindInsert:
				seen[string(m.Tuple[0].Data)]++
			case pgoutput.KindCommit:
				committed = len(seen)
				r.confirm(m.Commit.EndLSN)
			case pgoutput.KindKeepalive:
				r.confirm(m.Keepalive.WALEnd)
			}
		}
		<-promoted
		return s.Finish(ctx)
	}))
	require.NoError(t, limit.Err(), "it was finished before")
	require.GreaterOrEqual(t, r.rememberedOn(t, r.standby), r.slotThere(t).ConfirmedFlush)
	if streams == 1 {
		require.Len(t, r.log.FilterMessageSnippet("was promoted").All(), 1)
	}
	for _, id := range numbers(1, 600) {
		require.NotZero(t, seen[id], "row %s", id)
	}
	repeated := 0
	for _, n := range seen {
		repeated += n - 1
	}
	t.Logf("%d streams, %d repeated", streams, repeated)
	require.Equal(t, lsn.LSN(r.confirmed.Load()), r.slotThere(t).ConfirmedFlush)

	// The next start is a new process, with the same configuration.
	r.confirmed.Store(0)
	r.insertOn(t, r.standby, 601, 610)
	require.NoError(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true))
	require.NoError(t, Run(limit, r.Config, func(ctx context.Context, s *Stream) error {
		require.False(t, s.Identity().InRecovery)
		ids, err := r.ids(s, 10)
		require.Equal(t, numbers(601, 610), ids)
		require.NoError(t, err)
		return s.Finish(ctx)
	}))
}

// TestStandbyCrashes: it begins again at its last restart point, before what the connector has confirmed, and catches
// up.
func TestStandbyCrashes(t *testing.T) {
	t.Parallel()
	r := newStandby(t, standbyVersion(t), nil, nil)
	require.NoError(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true))
	r.insertOn(t, r.Server, 1, 50)
	streams := 0
	restarted := make(chan struct{})
	require.NoError(t, Run(t.Context(), r.Config, func(ctx context.Context, s *Stream) error {
		streams++
		if streams > 1 {
			ids, err := r.ids(s, 10)
			require.NoError(t, err)
			require.Equal(t, numbers(51, 60), ids, "the connector knows what it has confirmed")
			return s.Finish(ctx)
		}
		_, err := r.ids(s, 50)
		require.NoError(t, err)
		r.standby.Kill()
		r.insertOn(t, r.Server, 51, 60)
		go func() {
			defer close(restarted)
			assert.Eventually(t, func() bool { return r.standby.Start(context.Background()) == nil }, 2*time.Minute,
				200*time.Millisecond)
		}()
		_, err = s.Receive()
		for err == nil {
			_, err = s.Receive()
		}
		return err
	}))
	require.GreaterOrEqual(t, streams, 2)
	<-restarted // or it is started once more when its directory is removed
}

// TestStandbyWithoutAWayToThePrimary: nothing can be made there, and the errors say what to run where.
func TestStandbyWithoutAWayToThePrimary(t *testing.T) {
	t.Parallel()
	r := newStandby(t, standbyVersion(t), nil, nil)
	r.cfg.PrimaryDSN, r.cfg.Checkpoint, r.cfg.SlotWait = "", identifier.Table{}, 2*time.Second
	err := setup.Ensure(t.Context(), r.dsn(), r.cfg, true)
	requireRefusal(t, err, "only be made on the primary", fmt.Sprintf("the primary (127.0.0.1:%d)", r.Port()),
		"CREATE PUBLICATION", postgres.LogSnapshotSQL)
	r.Exec(t, `CREATE PUBLICATION `+identifier.Quote(r.cfg.Publication)+` FOR TABLE outbox`)
	require.Eventually(t, func() bool {
		err = setup.Ensure(t.Context(), r.dsn(), r.cfg, true)
		return strings.Contains(err.Error(), "It no longer exists")
	}, 30*time.Second, 50*time.Millisecond, "a publication without its slot may be a lost slot, here as well")
	requireRefusal(t, err, "on the standby", postgres.LogSnapshotSQL)

	for { // with twice the time until that is enough to get there
		_, err = setup.RecreateSlot(t.Context(), r.dsn(), r.cfg)
		require.Equal(t, fault.Retry, fault.KindOf(err))
		if strings.Contains(err.Error(), "waits for the primary to log its running transactions") {
			break
		}
		r.log.TakeAll()
		r.cfg.SlotWait *= 2
		require.Less(t, r.cfg.SlotWait, 2*time.Minute, err)
	}
	require.ErrorContains(t, err, postgres.LogSnapshotSQL)
	require.Equal(t, 1, r.log.FilterMessageSnippet("waits for the primary to log").Len())

	r.cfg.SlotWait = time.Minute
	made := make(chan error, 1)
	go func() { _, err := setup.RecreateSlot(t.Context(), r.dsn(), r.cfg); made <- err }()
	for done := false; !done; {
		select {
		case err := <-made:
			require.NoError(t, err)
			done = true
		case <-time.After(200 * time.Millisecond): //waits:ok repeated until the standby's slot is made
			r.Exec(t, postgres.LogSnapshotSQL)
		}
	}
	r.Config.Checkpoint, r.PrimaryDSN = identifier.Table{}, nil
	r.insertOn(t, r.Server, 1, 5)
	require.NoError(t, Run(t.Context(), r.Config, func(ctx context.Context, s *Stream) error {
		ids, err := r.ids(s, 5)
		require.Equal(t, numbers(1, 5), ids)
		require.NoError(t, err)
		return s.Finish(ctx)
	}))
	require.Equal(t, lsn.LSN(r.confirmed.Load()), r.slotThere(t).ConfirmedFlush)
}

// TestStandbyInvalidated: catalog rows go although decoding needs them, and wal_level falls.
func TestStandbyInvalidated(t *testing.T) {
	t.Parallel()
	r := newStandby(t, standbyVersion(t), nil, map[string]string{
		"hot_standby_feedback": "off", "primary_slot_name": "standby", "max_standby_streaming_delay": "0",
	})
	requireRefusal(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true), "hot_standby_feedback",
		"ALTER SYSTEM SET hot_standby_feedback = on")
	found := failing(setup.Preflight(t.Context(), r.dsn(), r.cfg))
	require.Contains(t, found["hot_standby_feedback"].Why, "rows_removed")

	r.Exec(t, `CREATE PUBLICATION `+identifier.Quote(r.cfg.Publication)+` FOR TABLE outbox`)
	_, err := setup.RecreateSlot(t.Context(), r.dsn(), r.cfg) // an operator who knows better
	require.NoError(t, err)
	r.cfg.Checkpoint = identifier.Table{}
	r.Config.Checkpoint = identifier.Table{}
	streaming := make(chan struct{})
	var once bool
	r.Config.OnState = func(s State) {
		if s.Phase == Streaming && !once {
			once = true
			close(streaming)
		}
	}
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), r.Config, drain) }()
	<-streaming
	require.Eventually(t, func() bool {
		for _, sql := range []string{
			`CREATE TABLE dropped (x int)`, `DROP TABLE dropped`, `VACUUM pg_class`, `VACUUM pg_attribute`,
		} {
			r.Exec(t, sql)
		}
		return r.slotThere(t).Invalidated()
	}, time.Minute, 200*time.Millisecond)
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		t.Fatal("the stream did not end")
	}
	requireRefusal(t, err, "recovery on the standby has removed", "hot_standby_feedback = on", "repair")
}

// TestStandbyIsMeant: a standby that is not configured, and a version that has no slots there.
func TestStandbyIsMeant(t *testing.T) {
	t.Parallel()
	r := newStandby(t, "15", nil, nil)
	requireRefusal(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true), "standby of PostgreSQL 15", "from 16 on")
	requireRefusal(t, Run(t.Context(), r.Config, drain), "standby of PostgreSQL 15", "from 16 on")
	r.cfg.HotStandby, r.Config.HotStandby = false, false
	requireRefusal(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true), "standby of PostgreSQL 15")

	r = newStandby(t, standbyVersion(t), nil, nil)
	require.NoError(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true))
	r.cfg.HotStandby, r.Config.HotStandby = false, false
	requireRefusal(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true), "It is a standby", "postgres.hot_standby: true")
	requireRefusal(t, Run(t.Context(), r.Config, drain), "It is a standby", "postgres.hot_standby: true")

	r.cfg.HotStandby, r.cfg.PrimaryDSN = true, r.dsn()
	err := setup.Ensure(t.Context(), r.dsn(), r.cfg, true)
	require.Equal(t, fault.Retry, fault.KindOf(err))
	require.ErrorContains(t, err, "target_session_attrs=read-write")
	other := testkit.Postgres(t)
	r.cfg.PrimaryDSN = other.DSN
	requireRefusal(t, setup.Ensure(t.Context(), r.dsn(), r.cfg, true), "another cluster")
}
