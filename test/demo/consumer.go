package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consume reads both topics from their start and reports their records to the ledger, until ctx ends.
func consume(ctx context.Context, brokers []string, book *ledger) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics(orderTopic, paymentTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("consume %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			if a, ok := read(r, now); ok {
				book.see(a)
			} else {
				book.garbled()
			}
		})
	}
}

// read takes a record apart as a consumer of the shop's events would.
func read(r *kgo.Record, now time.Time) (arrival, bool) {
	a := arrival{aggregate: aggregate{topic: r.Topic, key: string(r.Key)}, at: now}
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			a.id = string(h.Value)
		case doomed:
			a.doomed = true
		}
	}
	var c change
	if err := json.Unmarshal(r.Value, &c); err != nil || fmt.Sprint(c.Order) != a.key || a.id == "" || c.Version == 0 {
		return a, false
	}
	a.version = c.Version
	return a, true
}
