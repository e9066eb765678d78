package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consume prints the topics' records from the beginning: n of them, or with 0 all that come until ctx ends.
func consume(ctx context.Context, addr string, topics []string, n int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := present(ctx, kadm.NewClient(cl), topics); err != nil {
		return err
	}
	for seen := 0; ; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		for r := range fetches.RecordsAll() {
			show(r)
			if seen++; seen == n {
				return nil
			}
		}
	}
}

// present refuses a topic that is not there: a consumer of it would wait without a word.
func present(ctx context.Context, admin *kadm.Client, topics []string) error {
	list, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if !list.Has(topic) {
			return fmt.Errorf("there is no topic %s; create it: make topic TOPIC=%[1]s", topic)
		}
	}
	return nil
}

func show(r *kgo.Record) {
	var headers strings.Builder
	for _, h := range r.Headers {
		fmt.Fprintf(&headers, "  %s: %s\n", h.Key, text(h.Value))
	}
	fmt.Printf("%s partition %d offset %d key %s\n%s  %s\n", r.Topic, r.Partition, r.Offset, text(r.Key),
		headers.String(), text(r.Value))
}
