package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// objects are the names that gaps are kept under.
var objects = postgres.Objects{
	Slot: slotName, Publication: "cdc_outbox", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
	Checkpoint: identifier.Table{Schema: "public", Name: tableName},
}

// errUnpublished ends an instance from whose stream rows are missing.
var errUnpublished = errors.New("rows are hidden from the stream")

// account keeps the account of gaps beside a connector, as internal/app/service does: before anything is streamed, and
// then on a timer, over a connection for each check.
type account struct {
	connector *connector.Connector
	table     gap.Table
	dial      dialFunc
	every     time.Duration
}

func newAccount(c *connector.Connector, producer kafka.Config, dial dialFunc, every time.Duration) *account {
	a := &account{connector: c, table: gap.Of(objects), dial: dial, every: every}
	a.table.Publisher = publisher{c, producer.Cluster, producer.Ends}
	return a
}

// looks is the account over a connection.
type looks struct {
	*account
	conn *pgx.Conn
}

// lookTime bounds a check.
const lookTime = 30 * time.Second

func (a *account) with(ctx context.Context, use func(context.Context, *looks) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	name, err := dsn()
	if err != nil {
		return err
	}
	conn, err := postgres.Open(ctx, name, postgres.ConnectOptions{Dial: a.dial, Unprepared: true})
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	return use(ctx, &looks{a, conn})
}

// Run waits until publication and slot can be looked at, looks for gaps, and runs the connector. It ends with
// errUnpublished at the second check in a row that finds hidden rows.
func (a *account) Run(ctx context.Context) error {
	if err := a.ensure(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	_ = a.with(ctx, func(ctx context.Context, l *looks) error { return l.look(ctx, "", true) })
	if ctx.Err() != nil {
		return nil
	}
	around, end := context.WithCancel(ctx)
	defer end()
	g, around := errgroup.WithContext(around)
	g.Go(func() error { return a.watch(around) })
	g.Go(func() error {
		defer end()
		return a.connector.Run(around)
	})
	return g.Wait()
}

func (a *account) ensure(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		hides := ""
		err := a.with(ctx, func(ctx context.Context, l *looks) (err error) {
			hides, err = l.hides(ctx)
			return err
		})
		switch {
		case hides != "":
			return errUnpublished
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (a *account) watch(ctx context.Context) error {
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	before := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		hides := ""
		_ = a.with(ctx, func(ctx context.Context, l *looks) (err error) {
			if hides, err = l.hides(ctx); err != nil {
				return err
			}
			return l.look(ctx, hides, false)
		})
		if before && hides != "" {
			return errUnpublished
		}
		before = hides != ""
	}
}

// hides asks by what rows are hidden now. The stand-in answers as it is; the relay asks the catalog.
func (l *looks) hides(ctx context.Context) (why string, err error) {
	return why, l.conn.QueryRow(ctx, "SELECT hides()").Scan(&why)
}

func (l *looks) look(ctx context.Context, hides string, starts bool) error {
	_, err := l.table.Look(ctx, l.conn, hides, starts)
	return err
}

func (l *looks) begin(ctx context.Context) error { return l.table.BeginAccount(ctx, l.conn, true) }

// publisher knows the cluster and the ends of its partitions, as the service's does.
type publisher struct {
	connector *connector.Connector
	cluster   wire.Cluster
	ends      *kafka.LogEnds
}

func (p publisher) Kafka(last gap.Kafka) gap.Kafka {
	if p.connector.Status().State.Name != relay.Streaming {
		p.ends.Expect(last.ID, last.Ends)
		return last
	}
	now := gap.Kafka{ID: p.cluster.Identity.ID()}
	ends, lost := p.ends.Account(now.ID)
	now.Ends = ends
	for _, l := range lost {
		now.Lost = append(now.Lost, gap.Lost(l))
	}
	return now
}

func (p publisher) Kept(lost []gap.Lost) {
	settled := make([]kafka.LostRecords, len(lost))
	for i := range lost {
		settled[i] = kafka.LostRecords(lost[i])
	}
	p.ends.Settled(settled)
}
