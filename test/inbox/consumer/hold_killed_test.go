package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
)

// holdVictimVariable makes this test binary a consumer process that holds keys; see holdVictim.
const holdVictimVariable = "CDC_OUTBOX_TEST_HOLD_VICTIM"

// holdSpec is what such a process needs.
type holdSpec struct {
	Brokers []string
	DSN     string
	Bad     string // id of the event that its handler refuses
	Last    int    // the step before which it kills itself; 0: never
}

// steps counts what a process does that others can see, and kills it before one of them: each statement, what follows a
// commit, and what follows a letter or a mark in Kafka.
type steps struct {
	mu   sync.Mutex
	last int
	n    int
}

func (s *steps) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n == s.last {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // not one instruction more
	}
}

func (s *steps) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "-- ping" { // which the pool sends where a connection was idle for a second
		s.step()
	}
	return context.WithValue(ctx, stepKey{}, data.SQL)
}

// commit is the statement that commits an event.
const commit = "commit"

func (s *steps) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if sql, _ := ctx.Value(stepKey{}).(string); strings.HasPrefix(sql, commit) {
		s.step()
	}
}

// TraceBatchStart is the begin of a transaction with its first statement.
func (s *steps) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	s.step()
	return ctx
}

func (s *steps) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *steps) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Write takes a line of the log. The consumer logs each letter and each mark after the broker has acknowledged it.
func (s *steps) Write(line []byte) (int, error) {
	if text := string(line); strings.Contains(text, "was written to the dead-letter topic") ||
		strings.Contains(text, "does not hold its key any more") {
		s.step()
	}
	return os.Stderr.Write(line)
}

// holdVictim is a consumer process. It returns the exit code.
func holdVictim(text string) int {
	var spec holdSpec
	if json.Unmarshal([]byte(text), &spec) != nil {
		return 1
	}
	cfg, err := pgxpool.ParseConfig(spec.DSN)
	if err != nil {
		return 1
	}
	s := &steps{last: spec.Last}
	cfg.ConnConfig.Tracer = s
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return 1
	}
	defer pool.Close()
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		return 1
	}
	c, err := consumer.New(consumer.Options{
		Brokers: spec.Brokers, Group: "billing", Topics: []string{topic}, Drain: time.Millisecond, HoldKeys: 100,
		Logger: slog.New(slog.NewTextHandler(s, nil)),
	}, consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
		if m.ID == spec.Bad {
			return consumer.Permanent(errBad)
		}
		_, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", m.ID)
		return err
	}))
	if err == nil {
		err = c.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// victim starts a consumer process, which dies with the test.
func (r *holdRig) victim(bad string, last int) *child.Child {
	spec, err := json.Marshal(holdSpec{Brokers: r.Addrs(), DSN: r.pool.Config().ConnString(), Bad: bad, Last: last})
	require.NoError(r, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdVictimVariable+"="+string(spec))
	c, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(r, err)
	r.Cleanup(func() { _ = c.Signal(syscall.SIGKILL); <-c.Done() })
	return c
}

// killed runs a consumer process until it kills itself before its last step, and then another one until the group is
// past the records. It returns false if the first one came to the end.
func (r *holdRig) killed(bad string, last int, records int64) bool {
	r.Helper()
	c := r.victim(bad, last)
	ended := false
	require.Eventually(r, func() bool {
		select {
		case <-c.Done():
			return true
		default:
			ended = r.committed(r.T) == records
			return ended
		}
	}, 60*time.Second, 5*time.Millisecond)
	if ended {
		return false
	}
	r.forget(r.T)
	r.victim(bad, 0)
	r.awaitCommitted(r.T, records)
	return true
}

// everyStep runs the test once for each step, with a process that is killed before it, and once with a process that is
// not killed: that one shows that there are no further steps.
func everyStep(t *testing.T, steps int, test func(r *holdRig, last int) (killed bool)) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	for last := 1; last <= steps+1; last++ {
		t.Run(fmt.Sprint("step ", last), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, last <= steps, test(newHoldRig(t, 1), last), "whether there is such a step")
		})
	}
}

// A consumer process is killed before each step with which it makes letters. The next process has all letters, in their
// order, and no effect of an event that waits.
func TestKilledWhileAKeyIsTaken(t *testing.T) {
	everyStep(t, 5, func(r *holdRig, last int) bool {
		r.produce(r.T, record("a", "a1"), record("a", "a2"), record("a", "a3"))
		killed := r.killed("a1", last, 3)
		require.Empty(r, r.effects())
		require.Equal(r, []string{"a1 permanent", "a2 waiting", "a3 waiting"}, r.open())
		return killed
	})
}

// A consumer process is killed before each step with which it handles a letter that was retried, and the waiting ones.
// The next process goes on: one effect for each event, in order, and an event that came during the retry is last.
func TestKilledWhileAKeyIsReleased(t *testing.T) {
	everyStep(t, 19, func(r *holdRig, last int) bool {
		r.refuse("a1")
		stop := startBatch(r.T, r.opts, r.handle)
		r.send("a", "a1", "a2", "a3")
		require.NoError(r, stop())
		require.Equal(r, 1, r.retry())
		r.produce(r.T, record("a", "a4"))
		killed := r.killed("", last, 5)
		require.Equal(r, []string{"a1", "a2", "a3", "a4"}, r.effects())
		require.Empty(r, r.open())
		return killed
	})
}

// The same where the first letter was dismissed and a waiting letter fails: it holds the last ones then.
func TestKilledWhileAWaitingLetterFails(t *testing.T) {
	everyStep(t, 9, func(r *holdRig, last int) bool {
		r.refuse("a1")
		stop := startBatch(r.T, r.opts, r.handle)
		r.send("a", "a1", "a2", "a3", "a4")
		require.NoError(r, stop())
		r.dismiss("a1")
		r.produce(r.T, record("a", "a5"))
		killed := r.killed("a3", last, 5)
		require.Equal(r, []string{"a2"}, r.effects())
		require.Equal(r, []string{"a3 permanent", "a4 waiting", "a5 waiting"}, r.open())
		return killed
	})
}
