package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// TestCheckpointLockedTableHoldsSlotBack for however long it lasts: a slot that went on without would, after a crash,
// be refused as if an operator had moved it.
//
// Bug (checkpoint): While the checkpoint table was locked for long the slot advanced without it, and a crash then
// looked as if the slot had been moved by hand. Cost: exit 3 and a search for events that were not lost.
//
// Bug (checkpoint): A statement on the checkpoint table that was given up stayed on the server. Cost: sessions that
// waited for a lock.
//
// Bug (monitor): The remedy for a locked checkpoint had a placeholder for the session's pid. Cost: a command that fails
// when pasted.
func TestCheckpointLockedTableHoldsSlotBack(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	s.StatusInterval = 100 * time.Millisecond
	s.insert(t)
	st, stop := s.following(t)
	s.catchesUp(t, st)

	holder, err := s.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), `BEGIN; LOCK TABLE cdc_outbox_slots IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	s.insert(t)
	f := heldBack(t, st)
	require.Contains(t, f.Error(), fmt.Sprintf("locked by pid %d", holder.PgConn().PID()))
	end := fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", holder.PgConn().PID())
	require.Equal(t, []string{end}, f.Commands)
	require.Equal(t, sqlstate.QueryCanceled, sqlstate.Of(f),
		"the server ends the statement itself, so none piles up there")
	before := s.flushed(t)
	for range 3 {
		s.reads(t, st)
		s.hears(t)
		require.Equal(t, before, s.flushed(t))
	}
	require.NoError(t, stop(), "as a crash: nothing was written down")
	require.Equal(t, before, s.flushed(t))
	_, err = holder.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)

	s.beginsAgain(t)
}

// TestCheckpointCountsTime, from when the position last moved.
//
// Bug (checkpoint): The time for which the checkpoint table could not be written was counted in attempts, each of which
// may take six seconds. Cost: a wait of a minute and a half in place of 15 s.
func TestCheckpointCountsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		m := &checkpoint{
			cfg: &Config{Slot: "s", Checkpoint: identifier.Table{Schema: "public", Name: "m"}, Logger: zap.New(core)},
		}
		st := &Stream{cfg: m.cfg, checkpoint: m}
		m.stored.Store(10000)
		no := errors.New("no")
		began := time.Now()
		for range 100 {
			m.failed(no)
		}
		require.Empty(t, log.All(), "a hundred attempts in no time")
		time.Sleep(checkpointPatience)
		m.failed(no)
		m.failed(no)
		require.Equal(t, 1, log.Len(), "said once")
		since, why := st.HeldBack()
		require.Equal(t, began, since)
		require.ErrorIs(t, why, no)
		require.EqualValues(t, 10000, m.limit(20000), "and never without")
		m.stored.Store(10001)
		m.failed(no)
		since, _ = st.HeldBack()
		require.Equal(t, time.Now(), since, "it had moved")
		m.succeeded(20000)
		since, why = st.HeldBack()
		require.True(t, since.IsZero())
		require.NoError(t, why)
	})
}

// TestCheckpointConnectionHangs does not stop the stream's status updates, and its attempts do not pile up.
func TestCheckpointConnectionHangs(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	s := remembering(t, db)
	line, err := proxy.Start(db.Addr(), proxy.Raw)
	require.NoError(t, err)
	defer line.Close()
	var asked atomic.Int32
	s.Config.DSN = func() (string, error) {
		if asked.Add(1) == 1 {
			return db.DSN, nil // the stream's own
		}
		return db.DSNVia(line.Addr(), db.Name), nil
	}
	s.StatusInterval = 100 * time.Millisecond
	s.insert(t)
	st, stop := s.following(t)
	s.catchesUp(t, st)
	line.Stall(true)
	s.insert(t)
	heldBack(t, st)
	conn, err := s.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	attempts, updates, last := asked.Load(), 0, time.Time{}
	require.Eventually(t, func() bool {
		var sessions int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'cdc-outbox checkpoint' AND datname = current_database()`).Scan(&sessions))
		require.LessOrEqual(t, sessions, 2)
		if at := s.lastReply(t, conn); at.After(last) {
			updates, last = updates+1, at
		}
		return updates > 20 && asked.Load() >= attempts+2
	}, time.Minute, 20*time.Millisecond, "the status clock goes on, and so do the attempts")
	line.Stall(false)
	s.catchesUp(t, st)
	require.NoError(t, stop())
}

// TestCheckpointTableNotWritable says why, holds the slot back, and makes progress when that is over.
//
// Bug (checkpoint): A trigger that changed the row of the checkpoint table was not noticed. Cost: the slot was
// confirmed beyond the checkpoint.
func TestCheckpointTableNotWritable(t *testing.T) {
	for name, test := range map[string]struct {
		spoil, mend string
		why, next   string
	}{
		"a trigger that drops the change": {
			`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER no BEFORE INSERT OR UPDATE ON cdc_outbox_slots FOR EACH ROW EXECUTE FUNCTION no()`,
			`DROP TRIGGER no ON cdc_outbox_slots`, "a trigger or policy", "other sessions",
		},
		"a trigger that changes it": {
			`CREATE FUNCTION low() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.position := ''0/1''; RETURN NEW; END';
			CREATE TRIGGER low BEFORE UPDATE ON cdc_outbox_slots FOR EACH ROW EXECUTE FUNCTION low()`,
			`DROP TRIGGER low ON cdc_outbox_slots`, "a trigger changes it", "other sessions",
		},
		"a full disk": {
			`CREATE FUNCTION full_() RETURNS trigger LANGUAGE plpgsql
				AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100'', MESSAGE = ''no room''; END';
			CREATE TRIGGER full_ BEFORE UPDATE ON cdc_outbox_slots FOR EACH ROW EXECUTE FUNCTION full_()`,
			`DROP TRIGGER full_ ON cdc_outbox_slots`, "no room", "Make room",
		},
		"another cluster's row": {
			`UPDATE cdc_outbox_slots SET system_id = '1'`, `DELETE FROM cdc_outbox_slots`, "another cluster's",
			"other sessions",
		},
		"a missing column": {
			`ALTER TABLE cdc_outbox_slots RENAME position TO other`,
			`ALTER TABLE cdc_outbox_slots RENAME other TO position`, "42703", "as `cdc-outbox setup` makes it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := remembering(t, testkit.Postgres(t))
			s.StatusInterval = 100 * time.Millisecond
			s.insert(t)
			st, stop := s.following(t)
			s.catchesUp(t, st)
			s.Exec(t, test.spoil)
			s.insert(t)
			f := heldBack(t, st)
			require.ErrorContains(t, f, test.why)
			require.Contains(t, f.Remedy().String(), test.next)
			before := s.flushed(t)
			s.reads(t, st)
			s.hears(t)
			require.Equal(t, before, s.flushed(t))
			s.Exec(t, test.mend)
			s.catchesUp(t, st)
			require.NoError(t, stop())
			s.beginsAgain(t)
		})
	}
}

// TestCheckpointTableDropped: a dropped table is not used from then on, since nothing is left that the slot could be
// held against; made again, it is used again. A row that is deleted is begun again.
//
// Bug (checkpoint): A deleted row of the checkpoint table was not created again. Cost: the slot would not have advanced
// any more.
func TestCheckpointTableDropped(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	core, log := observer.New(zap.InfoLevel)
	s.Config.Logger = zap.New(core)
	s.insert(t)
	st, stop := s.following(t)
	s.catchesUp(t, st)
	s.Exec(t, `DELETE FROM cdc_outbox_slots`)
	s.catchesUp(t, st)

	s.Exec(t, `DROP TABLE cdc_outbox_slots`)
	s.insert(t)
	require.Eventually(t, func() bool {
		return log.FilterMessageSnippet("no longer exists").Len() == 1
	}, 30*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return s.flushed(t) >= lsn.LSN(st.lastRow.Load())
	}, 30*time.Second, 20*time.Millisecond, "the slot goes on")
	s.Exec(t, statetables.CheckpointDDL(s.Config.Checkpoint))
	s.insert(t)
	require.Eventually(t, func() bool {
		return log.FilterMessageSnippet("remembered again").Len() == 1
	}, time.Minute, 50*time.Millisecond)
	s.catchesUp(t, st)
	require.NoError(t, stop())
	s.confirmed.Store(0)
	_, stop = s.following(t)
	require.NoError(t, stop(), "nothing is held against it")
}

// TestCheckpointForeignRows need an operator.
//
// Bug (checkpoint): A stored position beyond the end of the log, edited or copied, was accepted as one that the slot
// had not reached yet. Cost: no gap would have been noticed from then on.
//
// Bug (checkpoint): A row of the checkpoint table that cannot be read was retried forever. Cost: not ready, without a
// message about what to do.
func TestCheckpointForeignRows(t *testing.T) {
	for name, test := range map[string]struct{ sql, says string }{
		"ahead of the log":   {`UPDATE cdc_outbox_slots SET position = 'FFFFFFFF/0'`, "has not written yet"},
		"another cluster's":  {`UPDATE cdc_outbox_slots SET system_id = '77'`, "another cluster"},
		"set back":           {`UPDATE cdc_outbox_slots SET position = '0/1'`, "beyond the last confirmed position"},
		"another timeline's": {`UPDATE cdc_outbox_slots SET position = '0/1', timeline = 7`, "was promoted"},
		"text for a position": {
			`ALTER TABLE cdc_outbox_slots ALTER position TYPE text; UPDATE cdc_outbox_slots SET position = 'here'`,
			`is "here"`,
		},
		"text for a timeline": {
			`ALTER TABLE cdc_outbox_slots ALTER timeline TYPE text; UPDATE cdc_outbox_slots SET timeline = 'x'`,
			"is not one that remembers slots",
		},
		"nothing": {
			`ALTER TABLE cdc_outbox_slots ALTER position DROP NOT NULL; UPDATE cdc_outbox_slots SET position = NULL`,
			`is ""`,
		},
		"no primary key": {`ALTER TABLE cdc_outbox_slots DROP CONSTRAINT cdc_outbox_slots_pkey`, "42P10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := remembering(t, testkit.Postgres(t))
			s.insert(t)
			require.NoError(t, s.readOne(t, false))
			s.Exec(t, test.sql)
			s.confirmed.Store(0)
			limit, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			err := Run(limit, s.Config, drain)
			requireRefusal(t, err, test.says)
		})
	}
}

// TestCheckpointReadOnlyByDefault is written all the same.
//
// Bug (checkpoint): With `default_transaction_read_only` the connector ran without the checkpoint. Cost: a slot that
// was moved would not have been noticed.
func TestCheckpointReadOnlyByDefault(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	s.insert(t)
	s.Exec(t, `ALTER DATABASE `+s.Name+` SET default_transaction_read_only = on`)
	core, log := observer.New(zap.WarnLevel)
	s.Config.Logger = zap.New(core)
	require.NoError(t, s.readOne(t, false))
	require.Empty(t, log.All())
	require.Equal(t, s.flushed(t), s.remembered(t))
}

// TestCheckpointRowSecurity: a policy that hides the row leaves no row, and a right that is missing is said.
func TestCheckpointRowSecurity(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	role := s.Name + "_r"
	s.Exec(t, `CREATE ROLE `+role+` LOGIN REPLICATION; GRANT ALL ON TABLE cdc_outbox_slots TO `+role+
		`; ALTER TABLE cdc_outbox_slots ENABLE ROW LEVEL SECURITY`)
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, s.Server.Exec(ctx, s.Name, `DROP OWNED BY `+role))
		require.NoError(t, s.Server.Exec(ctx, s.Name, `DROP ROLE `+role))
	})
	dsn := strings.Replace(s.DSNVia(s.Addr(), s.Name), "postgres@", role+"@", 1)
	s.Config.DSN = func() (string, error) { return dsn, nil }
	core, log := observer.New(zap.WarnLevel)
	s.Config.Logger = zap.New(core)
	s.insert(t)
	require.NoError(t, s.readOne(t, false))
	require.Equal(t, 1, log.FilterMessageSnippet("cannot be used").Len())
	require.Equal(t, lsn.LSN(s.confirmed.Load()), s.flushed(t))
}

// TestCheckpointTwoInstances: one that lost the slot and still writes neither sets the position back nor disturbs the
// other.
func TestCheckpointTwoInstances(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	s.insert(t)
	st, stop := s.following(t)
	s.catchesUp(t, st)
	zombie := newCheckpoint(&Config{
		Slot: s.Config.Slot, Checkpoint: s.Config.Checkpoint, DSN: s.Config.DSN, Logger: zap.NewNop(),
	})
	defer zombie.close()
	zombie.id = st.Identity()
	old := s.remembered(t)
	s.catchesUp(t, st)
	at := s.remembered(t)
	require.Greater(t, at, old)
	require.NoError(t, zombie.store(t.Context(), old))
	require.GreaterOrEqual(t, s.remembered(t), at)

	s.insert(t)
	require.NoError(t, zombie.store(t.Context(), at+1), "what it had confirmed itself")
	s.catchesUp(t, st)
	require.NoError(t, stop())
	s.beginsAgain(t)
}

// TestCheckpointHeldBackNamesRemedy for each cause, without a connection string.
func TestCheckpointHeldBackNamesRemedy(t *testing.T) {
	m := &checkpoint{cfg: &Config{Checkpoint: identifier.Table{Schema: "public", Name: "m"}}}
	for code, next := range map[string]string{
		"57014": "pg_locks", "55P03": "pg_locks", "42501": "GRANT", "53100": "Make room",
		"": "answers other sessions", "23514": "setup",
	} {
		var err error = &pgconn.PgError{Code: code}
		if code == "" {
			err = errors.New("broken pipe")
		}
		var f *fault.Error
		require.ErrorAs(t, m.heldBack(err), &f)
		require.Contains(t, f.Remedy().String(), next)
	}
}
