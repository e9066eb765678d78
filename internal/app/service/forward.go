package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/forward"
)

// Forward hands the records of topics to an HTTP endpoint until ctx ends, and then waits for the calls under way.
// createLedger creates the ledger's table first.
func Forward(ctx context.Context, o Options, fo forward.Options, ledgerDSN string, createLedger bool) error {
	limitMemory(int64(o.Config.Window.Bytes))
	p := newProcess(o)
	pool, err := ledgerPool(ctx, ledgerDSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := prepareLedger(ctx, pool, fo.Ledger, createLedger); err != nil {
		return err
	}
	k, err := wiring.Kafka(o.Config)
	if err != nil {
		return err
	}
	k.SetDefaults()
	fo.Consumer.Brokers, fo.Consumer.Dial = k.Brokers, func(ctx context.Context, _, address string) (net.Conn, error) {
		return k.DialNet(ctx, address)
	}
	if k.SASL != nil {
		fo.Consumer.Login = wire.Login{SASL: k.SASL}
	}
	fo.Consumer.Logger = slog.New(zapslog.NewHandler(o.Logger.Core()))
	f, err := forward.New(fo, pool, p.registry)
	if err != nil {
		return fault.Usage(err.Error(), "correct the command line")
	}
	ready := func() (bool, string) {
		if err := f.Ready(); err != nil {
			return false, err.Error()
		}
		return true, "forwarding"
	}
	shown := telemetry.Handlers{Ready: ready, Status: func() any { return f.Status() }}
	if err := p.listen(ctx, shown, nil); err != nil {
		return err
	}
	o.Logger.Info("forwarding", zap.Strings(logkey.Topic, fo.Consumer.Topics), zap.String(logkey.Group,
		fo.Consumer.Group), zap.String(logkey.Address, fo.URL.Host), zap.String(logkey.Version, o.Build.Version))
	if err := p.forward(ctx, f); err != nil {
		return err
	}
	o.Logger.Info("stopped as asked")
	return nil
}

// forward serves until the consumer has drained.
func (p *process) forward(ctx context.Context, f *forward.Forwarder) error {
	others, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer end()
		return lostFault(f.Run(gctx))
	})
	if p.server != nil {
		g.Go(func() error { return p.server.Run(others) })
	}
	return g.Wait()
}

// lostFault says whose turn it is when the consumer gives up.
func lostFault(err error) error {
	var lost *consumer.LostError
	if !errors.As(err, &lost) {
		return err
	}
	return &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d", lost.Topic, lost.Partition), Err: err,
		Next: "Publish the missing events again (cdc-outbox repair or replay), then set the group's offset.",
	}
}

func ledgerPool(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, postgres.DSNFault(dsn)
	}
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return nil, postgres.DSNFault(dsn)
	}
	// The pool's own parser does not know a source of the password, and would send it to the server as a parameter.
	cfg.ConnConfig.AfterNetConnect, cfg.ConnConfig.BuildFrontend = pc.AfterNetConnect, pc.BuildFrontend
	cfg.ConnConfig.MaxProtocolMessageBodyLen = pc.MaxProtocolMessageBodyLen
	maps.DeleteFunc(cfg.ConnConfig.RuntimeParams, func(name, _ string) bool {
		_, known := pc.RuntimeParams[name]
		return !known
	})
	cfg.ConnConfig.RuntimeParams["application_name"] = "cdc-outbox forward"
	return pgxpool.NewWithConfig(ctx, cfg)
}

// prepareLedger finds a missing table before the first record needs it. A database that does not answer is waited for
// later, except by the command that is asked to create the table.
func prepareLedger(ctx context.Context, pool *pgxpool.Pool, o inbox.Options, create bool) error {
	if create {
		if err := forward.CreateLedger(ctx, pool, o); err != nil {
			return postgres.QueryFault("the ledger", err)
		}
	}
	err := forward.CheckLedger(ctx, pool, o)
	if sqlstate.Of(err) == sqlstate.UndefinedTable {
		return &fault.Error{
			Kind: fault.Operator, Object: "the ledger", Err: err,
			Next: "Run it once with --create-ledger, or create the table with the statements of docs/ledger.md.",
		}
	}
	return nil
}
