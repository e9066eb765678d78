package main

import (
	"context"
	"log/slog"

	example "github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// billing is what the billing service has done.
type billing struct {
	lines    uint64 // it wrote
	events   uint64 // different ones among them
	absorbed uint64 // deliveries that were recognised as duplicates
	err      error
}

// bill runs the billing service of examples/ in the shop's database, until ctx ends.
func (s *shop) bill(ctx context.Context, brokers []string) error {
	c, err := example.Billing(s.pool, consumer.Options{
		Brokers: brokers, Topics: []string{orderTopic, paymentTopic}, Metrics: inbox.NewMetrics(s.metrics),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func (s *shop) billed(ctx context.Context) (b billing) {
	b.err = s.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT event_id) FROM billing_lines").Scan(&b.lines,
		&b.events)
	families, err := s.metrics.Gather()
	if b.err == nil {
		b.err = err
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "cdc_outbox_inbox_deliveries_total" && l.GetName() == "result" &&
					l.GetValue() == "duplicate" {
					b.absorbed += uint64(m.GetCounter().GetValue())
				}
			}
		}
	}
	return b
}
