package main

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// consumerWay is one way to handle each event once.
type consumerWay struct {
	name    string
	batches bool
	run     func(ctx context.Context, b *consumerBed, group string) error
}

var consumerWays = []consumerWay{
	{"by hand, a transaction each", false, func(ctx context.Context, b *consumerBed, group string) error {
		return b.byHand(ctx, group, 1, b.oneByHand(b.pool))
	}},
	{"by hand, a transaction each with a limit", false, func(ctx context.Context, b *consumerBed, group string) error {
		return b.byHand(ctx, group, 1, b.oneByHand(b.limited))
	}},
	{"consumer.InTx", false, func(ctx context.Context, b *consumerBed, group string) error {
		return b.ours(ctx, group, func(in *inbox.Inbox) (*consumer.Consumer, error) {
			return consumer.New(b.options(group), consumer.InTx(in,
				func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
					b.handled.add(1)
					_, err := tx.Exec(ctx, effect, m.ID, string(m.Key), m.Value)
					return err
				}))
		})
	}},
	{"by hand, batches", true, func(ctx context.Context, b *consumerBed, group string) error {
		return b.byHand(ctx, group, b.most, b.batchByHand(false))
	}},
	{"consumer.BatchInTx", true, func(ctx context.Context, b *consumerBed, group string) error {
		return b.oursBatches(ctx, group, false)
	}},
	{"by hand, batches, effects together", true, func(ctx context.Context, b *consumerBed, group string) error {
		return b.byHand(ctx, group, b.most, b.batchByHand(true))
	}},
	{"consumer.BatchInTx, effects together", true, func(ctx context.Context, b *consumerBed, group string) error {
		return b.oursBatches(ctx, group, true)
	}},
}

const effect = "INSERT INTO effects (event, key, data) VALUES ($1, $2, $3)"

func (b *consumerBed) options(group string) consumer.Options {
	return consumer.Options{
		Brokers: strings.Split(b.brokers, ","), Group: group, Topics: []string{b.topic}, Batch: b.most,
	}
}

// ours runs a consumer until ctx ends.
func (b *consumerBed) ours(
	ctx context.Context, group string, create func(in *inbox.Inbox) (*consumer.Consumer, error),
) error {
	in, err := inbox.New(b.pool, inbox.Options{Consumer: group})
	if err != nil {
		return err
	}
	c, err := create(in)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func (b *consumerBed) oursBatches(ctx context.Context, group string, together bool) error {
	return b.ours(ctx, group, func(in *inbox.Inbox) (*consumer.Consumer, error) {
		return consumer.NewBatch(b.options(group), consumer.BatchInTx(in,
			func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
				defer b.handled.add(len(ms))
				var batch pgx.Batch
				for _, m := range ms {
					if together {
						batch.Queue(effect, m.ID, string(m.Key), m.Value)
					} else if _, err := tx.Exec(ctx, effect, m.ID, string(m.Key), m.Value); err != nil {
						return err
					}
				}
				return tx.SendBatch(ctx, &batch).Close()
			}))
	})
}

// byHand is a loop as one writes it in an afternoon: a goroutine for each partition, which gets what was polled,
// handles up to most records a call, and marks their offsets after it.
func (b *consumerBed) byHand(
	ctx context.Context, group string, most int, handle func(ctx context.Context, group string, rs []*kgo.Record) error,
) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.brokers, ",")...), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(b.topic), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	running, ctx := errgroup.WithContext(ctx)
	var polled [partitions]chan []*kgo.Record
	for i := range polled {
		polled[i] = make(chan []*kgo.Record, 1)
		running.Go(func() error {
			for rs := range polled[i] {
				for len(rs) > 0 && ctx.Err() == nil {
					n := min(most, len(rs))
					if err := handle(ctx, group, rs[:n]); err != nil && ctx.Err() == nil {
						return err
					}
					client.MarkCommitRecords(rs[:n]...)
					rs = rs[n:]
				}
			}
			return nil
		})
	}
	for ctx.Err() == nil {
		client.PollRecords(ctx, 10_000).EachPartition(func(p kgo.FetchTopicPartition) {
			if p.Err != nil { // also the end of ctx
				return
			}
			select {
			case polled[p.Partition] <- p.Records:
			case <-ctx.Done():
			}
		})
		client.AllowRebalance()
	}
	for _, c := range polled {
		close(c)
	}
	return running.Wait()
}

func id(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == "id" {
			return string(h.Value)
		}
	}
	return ""
}

func (b *consumerBed) oneByHand(pool *pgxpool.Pool) func(context.Context, string, []*kgo.Record) error {
	return func(ctx context.Context, group string, rs []*kgo.Record) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		tag, err := tx.Exec(ctx, `INSERT INTO processed_events (consumer, event_id, status, completed_at)
			VALUES ($1, $2, 'COMPLETED', now()) ON CONFLICT DO NOTHING`, group, id(rs[0]))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			if _, err := tx.Exec(ctx, effect, id(rs[0]), string(rs[0].Key), rs[0].Value); err != nil {
				return err
			}
		}
		defer b.handled.add(1)
		return tx.Commit(ctx)
	}
}

// batchByHand handles records in one transaction, with the effects sent together or one after the other.
func (b *consumerBed) batchByHand(together bool) func(context.Context, string, []*kgo.Record) error {
	return func(ctx context.Context, group string, rs []*kgo.Record) error {
		tx, err := b.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		ids := make([]string, len(rs))
		for i, r := range rs {
			ids[i] = id(r)
		}
		rows, err := tx.Query(ctx, `INSERT INTO processed_events (consumer, event_id, status, completed_at)
			SELECT $1, unnest($2::text[]), 'COMPLETED', now() ON CONFLICT DO NOTHING RETURNING event_id`, group, ids)
		if err != nil {
			return err
		}
		claimed, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		fresh := make(map[string]bool, len(claimed))
		for _, id := range claimed {
			fresh[id] = true
		}
		var batch pgx.Batch
		for i, r := range rs {
			switch {
			case !fresh[ids[i]]:
			case together:
				batch.Queue(effect, ids[i], string(r.Key), r.Value)
			default:
				if _, err := tx.Exec(ctx, effect, ids[i], string(r.Key), r.Value); err != nil {
					return err
				}
			}
		}
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		defer b.handled.add(len(rs))
		return tx.Commit(ctx)
	}
}
