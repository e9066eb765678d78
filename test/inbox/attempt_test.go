package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/inboxtest"
)

// store is a system beside the database, where a file is of no consequence until its name is published.
type store struct {
	mu    sync.Mutex
	files map[string]bool
	fail  error // of the next removal
}

func newStore() *store { return &store{files: map[string]bool{}} }

func (s *store) put(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = true
	return nil
}

func (s *store) remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.fail
	if s.fail = nil; err == nil {
		delete(s.files, name)
	}
	return err
}

func (s *store) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

func newAttemptsBed(t *testing.T) *bed {
	b := newBed(t)
	ddl, err := inbox.AttemptsSchema(inbox.Options{})
	require.NoError(t, err)
	b.Exec(t, ddl)
	b.Exec(t, ddl) // a second time does nothing
	return b
}

func publish(ctx context.Context, tx pgx.Tx, attempt string) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('e', $1)", attempt)
	return err
}

// published are the names that readers find.
func (b *bed) published(t *testing.T) []string {
	rows, err := b.pool.Query(t.Context(), "SELECT by FROM effects ORDER BY by")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// cleanedUp holds what must be true after the second clean up: there is what is published, and nothing else.
func (b *bed) cleanedUp(t *testing.T, s *store, in *inbox.Inbox) {
	t.Helper()
	for range 2 {
		_, err := in.CleanUp(t.Context(), 0, s.remove)
		require.NoError(t, err)
	}
	require.Equal(t, b.published(t), s.names())
	require.Len(t, s.names(), 1)
	require.Zero(t, b.count(t, "processed_events_attempts"))
}

// Whatever step the backend dies at: after the next delivery and the clean up there is one effect, with what it names,
// and nothing else.
func TestAttemptCrashesAtEachStep(t *testing.T) {
	b := newAttemptsBed(t)
	for _, step := range []struct {
		text string
		pass int32
	}{
		{`INSERT INTO "processed_events_attempts"`, 0},
		{"commit", 0},
		{`INSERT INTO "processed_events" `, 0},
		{`DELETE FROM "processed_events_attempts"`, 0},
		{"INSERT INTO effects", 0},
		{"commit", 1},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %d, %v", step.text, step.pass, after), func(t *testing.T) {
				b.Exec(t, "TRUNCATE effects, processed_events, processed_events_attempts")
				s := newStore()
				a := &assassin{t: t, b: b, step: step.text, after: after}
				a.pass.Store(step.pass)
				in, err := inbox.New(b.connect(t, a), inbox.Options{Consumer: "billing"})
				require.NoError(t, err)
				event := inbox.Event{ID: "e"}
				err = in.Attempt(t.Context(), event, s.put, publish)
				require.True(t, a.struck.Load(), "no such step")
				done := step.text == "commit" && step.pass == 1 && after
				require.Equal(t, done, err == nil, "%v", err)

				again, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
				require.NoError(t, err)
				if err = again.Attempt(t.Context(), event, s.put, publish); done {
					require.ErrorIs(t, err, inbox.ErrDuplicate)
					require.Len(t, s.names(), 1, "nothing is prepared for an event that was handled")
				} else {
					require.NoError(t, err)
				}
				b.cleanedUp(t, s, again)
			})
		}
	}
}

// A clean up that dies, or that cannot remove, is done by the next one.
func TestCleanUpCrashesAtEachStep(t *testing.T) {
	b := newAttemptsBed(t)
	for _, step := range []string{
		`UPDATE "processed_events_attempts"`, "commit", `DELETE FROM "processed_events_attempts"`, "",
	} {
		t.Run(step, func(t *testing.T) {
			b.Exec(t, "TRUNCATE effects, processed_events, processed_events_attempts")
			s := newStore()
			in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
			require.NoError(t, err)
			event := inbox.Event{ID: "e"}
			failed := errors.New("it fails")
			err = in.Attempt(t.Context(), event, s.put, func(context.Context, pgx.Tx, string) error { return failed })
			require.ErrorIs(t, err, failed)
			a := &assassin{t: t, b: b, step: step}
			if step == "" {
				s.fail = failed
				a.struck.Store(true)
			}
			mortal, err := inbox.New(b.connect(t, a), inbox.Options{Consumer: "billing"})
			require.NoError(t, err)
			_, err = mortal.CleanUp(t.Context(), 0, s.remove)
			require.Error(t, err)
			require.True(t, a.struck.Load())
			require.NoError(t, in.Attempt(t.Context(), event, s.put, publish))
			_, err = in.CleanUp(t.Context(), 0, s.remove)
			require.NoError(t, err)
			b.cleanedUp(t, s, in)
		})
	}
}

// An attempt that is cleaned up while it is under way fails, and another delivery of its event succeeds. What it has
// prepared after the clean up is removed by a later one.
func TestAttemptThatIsCleanedUpMeanwhile(t *testing.T) {
	b := newAttemptsBed(t)
	s := newStore()
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	const age = time.Hour
	removes := func(want int) {
		n, err := in.CleanUp(t.Context(), age, s.remove)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	event := inbox.Event{ID: "e"}
	err = in.Attempt(t.Context(), event, func(ctx context.Context, attempt string) error {
		removes(0) // it is young
		b.Exec(t, "UPDATE processed_events_attempts SET begun_at = now() - interval '2 hours'")
		removes(1)
		return s.put(ctx, attempt)
	}, publish)
	require.ErrorIs(t, err, inbox.ErrCleanedUp)
	require.Empty(t, b.published(t))
	require.Zero(t, b.count(t, "processed_events"))
	require.NoError(t, in.Attempt(t.Context(), event, s.put, publish))
	removes(0)
	require.Len(t, s.names(), 2)
	b.Exec(t, "UPDATE processed_events_attempts SET doomed_at = doomed_at - interval '2 hours'")
	removes(1)
	b.cleanedUp(t, s, in)
}

func TestAttemptOfSQL(t *testing.T) {
	b := newAttemptsBed(t)
	s := newStore()
	in, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	publish := func(ctx context.Context, tx *sql.Tx, attempt string) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('e', $1)", attempt)
		return err
	}
	failed := errors.New("it fails")
	fails := func(ctx context.Context, name string) error { return errors.Join(s.put(ctx, name), failed) }
	require.ErrorIs(t, in.Attempt(t.Context(), inbox.Event{ID: "e"}, fails, publish), failed)
	require.NoError(t, in.Attempt(t.Context(), inbox.Event{ID: "e"}, s.put, publish))
	require.ErrorIs(t, in.Attempt(t.Context(), inbox.Event{ID: "e"}, s.put, publish), inbox.ErrDuplicate)
	require.Len(t, s.names(), 2)
	for _, want := range []int{1, 0} {
		n, err := in.CleanUp(t.Context(), 0, s.remove)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, b.published(t), s.names())
	b.Exec(t, "DROP TABLE processed_events_attempts")
	require.ErrorIs(t, in.Attempt(t.Context(), inbox.Event{ID: "f"}, s.put, publish), inbox.ErrLedger)
}

// The handlers of package consumer are Attempt with the record.
func TestAttemptOfTheConsumer(t *testing.T) {
	b := newAttemptsBed(t)
	s := newStore()
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	std, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	event := inboxtest.Event("e", "paid", "k", []byte("v"))
	prepare := func(ctx context.Context, m consumer.Message, attempt string) error {
		require.Equal(t, event.ID, m.ID)
		return s.put(ctx, attempt)
	}
	for name, handle := range map[string]consumer.Handler{
		"pgx": consumer.Attempt(in, prepare,
			func(ctx context.Context, tx pgx.Tx, m consumer.Message, attempt string) error {
				require.Equal(t, event.ID, m.ID)
				return publish(ctx, tx, attempt)
			}),
		"database/sql": consumer.AttemptSQL(std, prepare,
			func(ctx context.Context, tx *sql.Tx, m consumer.Message, attempt string) error {
				require.Equal(t, event.ID, m.ID)
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('e', $1)", attempt)
				return err
			}),
	} {
		t.Run(name, func(t *testing.T) {
			b.Exec(t, "TRUNCATE effects, processed_events")
			repeats := inboxtest.Repeat(1, []consumer.Message{event})
			require.NoError(t, inboxtest.Deliver(t.Context(), handle, repeats...))
			published := b.published(t)
			require.Len(t, published, 1)
			require.Contains(t, s.names(), published[0])
		})
	}
	require.Len(t, s.names(), 2)
	require.Zero(t, b.count(t, "processed_events_attempts"))
}
