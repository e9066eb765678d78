package consumer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
)

// victimVariable makes this test binary a consumer process; see victim.
const victimVariable = "CDC_OUTBOX_TEST_VICTIM"

// together is the strategy of a victim that handles batches.
const together = "together"

// victimOf writes what a victim needs: brokers, dsn, strategy, and the step at which it kills itself.
func victimOf(brokers []string, dsn string, strategy inbox.Strategy, step string, after bool) string {
	return strings.Join([]string{strings.Join(brokers, ","), dsn, string(strategy), step, fmt.Sprint(after)}, "\n")
}

// suicide is a tracer that kills its own process, before or after one statement of the second transaction.
type suicide struct {
	step   string
	after  bool
	begins int
}

type stepKey struct{}

func (s *suicide) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !s.after {
		s.strike(data.SQL)
	}
	return context.WithValue(ctx, stepKey{}, data.SQL)
}

func (s *suicide) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if s.after {
		s.strike(ctx.Value(stepKey{}).(string))
	}
}

func (s *suicide) TraceBatchStart(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	step := data.Batch.QueuedQueries[0].SQL
	if step == "begin" { // it is sent with the first statement of its transaction
		s.begins++
		step = data.Batch.QueuedQueries[1].SQL
	}
	return s.TraceQueryStart(ctx, c, pgx.TraceQueryStartData{SQL: step})
}

func (s *suicide) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *suicide) TraceBatchEnd(ctx context.Context, c *pgx.Conn, _ pgx.TraceBatchEndData) {
	s.TraceQueryEnd(ctx, c, pgx.TraceQueryEndData{})
}

func (s *suicide) strike(statement string) {
	if s.begins == 2 && s.step != "" && strings.HasPrefix(statement, s.step) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // not one instruction more
	}
}

func billing(s inbox.Strategy) inbox.Options {
	if s == together {
		s = inbox.Insert
	}
	return inbox.Options{Consumer: "billing", Strategy: s}
}

// victim is a consumer process. It returns the exit code.
func victim(spec string) int {
	args := strings.Split(spec, "\n")
	cfg, err := pgxpool.ParseConfig(args[1])
	if err != nil {
		return 1
	}
	cfg.ConnConfig.Tracer = &suicide{step: args[3], after: args[4] == "true"}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return 1
	}
	defer pool.Close()
	in, err := inbox.New(pool, billing(inbox.Strategy(args[2])))
	if err != nil {
		return 1
	}
	opts := consumer.Options{
		Brokers: strings.Split(args[0], ","), Group: "billing", Topics: []string{topic}, Drain: time.Millisecond,
	}
	c, err := consumer.New(opts, consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", m.ID)
		return err
	}))
	if args[2] == together {
		c, err = consumer.NewBatch(opts, consumer.BatchInTx(in,
			func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
				var b pgx.Batch
				for _, m := range ms {
					b.Queue("INSERT INTO effects (id) VALUES ($1)", m.ID)
				}
				return tx.SendBatch(ctx, &b).Close()
			}))
	}
	if err == nil {
		err = c.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// victim starts a consumer process, which dies with the test.
func (b *bed) victim(t *testing.T, dsn string, strategy inbox.Strategy, step string, after bool) *child.Child {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+victimOf(b.Addrs(), dsn, strategy, step, after))
	c, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Signal(syscall.SIGKILL); <-c.Done() })
	return c
}

// forget removes the dead member from the group, as the broker does itself after the session timeout.
func (b *bed) forget(t *testing.T) {
	groups, err := b.Admin().DescribeGroups(t.Context(), "billing")
	require.NoError(t, err)
	for _, m := range groups["billing"].Members {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = "billing"
		leaving := kmsg.NewLeaveGroupRequestMember()
		leaving.MemberID = m.MemberID
		req.Members = append(req.Members, leaving)
		_, err := req.RequestWith(t.Context(), b.producer)
		require.NoError(t, err)
	}
}

// A consumer process is killed with SIGKILL before and after each statement of an event, or of a batch of two, and
// after its offset was committed. The next process handles what the first one did not: one effect for each event, in
// order.
func TestKilledConsumerProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	steps := map[inbox.Strategy][]string{
		inbox.Insert: {`INSERT INTO "processed_events"`, "INSERT INTO effects", commit},
		inbox.Advisory: {
			"SELECT pg_catalog.pg_try_advisory_xact_lock", `INSERT INTO "processed_events"`,
			"INSERT INTO effects", `UPDATE "processed_events"`, commit,
		},
		together: {`INSERT INTO "processed_events"`, "INSERT INTO effects", commit},
	}
	for strategy, names := range steps {
		for _, step := range append(names, "") {
			for _, after := range []bool{false, true} {
				if step == "" && after {
					continue
				}
				name := fmt.Sprintf("%s %s %s", strategy, map[bool]string{false: "before", true: "after"}[after], step)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					killedOnce(t, strategy, step, after)
				})
			}
		}
	}
}

func killedOnce(t *testing.T, strategy inbox.Strategy, step string, after bool) {
	b := newBed(t, 1)
	_, pool := ledgerOf(t, billing(strategy))
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (n bigserial, id text)")
	require.NoError(t, err)
	handled := func(from string) (ids []string) {
		require.NoError(t, pool.QueryRow(t.Context(), from).Scan(&ids))
		return ids
	}
	effects := func() []string { return handled("SELECT COALESCE(array_agg(id ORDER BY n), '{}') FROM effects") }
	records, all := []*kgo.Record{record("k", "a"), record("k", "b")}, []string{"a", "b", "c"}
	if strategy == together { // the first of a new group comes alone
		records, all = append(records, record("k", "b2")), []string{"a", "b", "b2", "c"}
	}
	n := int64(len(records))
	b.produce(t, records...)
	dsn := pool.Config().ConnString()
	first := b.victim(t, dsn, strategy, step, after)
	if step == "" { // the offset is committed, and nothing is at work
		b.awaitCommitted(t, n)
		require.NoError(t, first.Signal(syscall.SIGKILL))
	}
	select {
	case <-first.Done():
	case <-time.After(60 * time.Second):
		require.Fail(t, "the process was not killed", "effects: %v", effects())
	}
	committed := step == "" || step == commit && after
	want := []string{"a"}
	if committed {
		want = all[:n]
	}
	require.Equal(t, want, effects(), "at the death")
	require.LessOrEqual(t, b.committed(t), int64(len(want)), "no offset of an event without its effect")
	b.forget(t)

	b.produce(t, record("k", "c"))
	b.victim(t, dsn, strategy, "", false)
	b.awaitCommitted(t, n+1)
	require.Equal(t, all, effects())
	require.Equal(t, all,
		handled("SELECT array_agg(event_id ORDER BY event_id) FROM processed_events WHERE status = 'COMPLETED'"))
	require.Empty(t, b.letters(t))
}
