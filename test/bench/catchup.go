package main

import (
	"context"
	"fmt"
	"time"
)

const catchUpName = "catch-up"

// catchUp commits one event after a fifth of a backlog was relayed, and compares how long the event takes to arrive
// with how long the rest of the backlog takes at the rate so far. It is last in the log, so it is there when all
// records are.
func (b *bed) catchUp(ctx context.Context, backlog int) error {
	const slot = "catch_up"
	if err := b.createSlot(ctx, slot); err != nil {
		return err
	}
	if _, err := load(ctx, b.conn, backlog, 10); err != nil {
		return err
	}
	topics := topicsOf(slot)
	if err := b.createTopics(ctx, topics); err != nil {
		return err
	}
	client, err := b.kafka.Inside()
	if err != nil {
		return err
	}
	defer client.Close()
	p, err := startProcess(ctx, ourCommand(b, slot, slot, atLeastOnce))
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	until := func(n int) (have int64, at time.Time, err error) {
		for have < int64(n) {
			if have, err = client.Count(limited, topics...); err != nil {
				return have, at, fmt.Errorf("%d of %d records: %w", have, n, err)
			}
			at = time.Now()
			time.Sleep(2 * time.Millisecond)
		}
		return have, at, nil
	}
	first, began, err := until(1)
	if err != nil {
		return err
	}
	have, now, err := until(backlog / 5)
	if err != nil {
		return err
	}
	insert := fmt.Sprintf(insertRows, aggregateIDs, "$1::int", "$1::int")
	if _, err := b.conn.Exec(ctx, insert, backlog+1); err != nil {
		return err
	}
	committed := time.Now()
	_, end, err := until(backlog + 1)
	if err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	rate := float64(have-first) / now.Sub(began).Seconds()
	fmt.Printf("%s: an event committed when %d of %d rows were relayed at %.0f rows/s arrived after %.0f ms; the rest "+
		"of the backlog at that rate is %.0f ms\n\n", catchUpName, have, backlog, rate,
		float64(end.Sub(committed).Milliseconds()), 1000*float64(int64(backlog)-have)/rate)
	_, err = b.conn.Exec(ctx, "TRUNCATE outbox")
	return err
}
