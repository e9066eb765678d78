package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// partitions of each topic.
const partitions = 12

// expectation is what Kafka must hold, by row number: hashes rather than a million payloads.
type expectation struct {
	seed   maphash.Seed
	values []uint64
}

// expect reads the table as Postgres prints it.
func (b *bed) expect(ctx context.Context) (*expectation, error) {
	e := &expectation{seed: maphash.MakeSeed(), values: make([]uint64, b.rows+1)}
	rows, err := b.conn.Query(ctx, "SELECT id::text, payload::text FROM outbox")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, payload string
		if err := rows.Scan(&id, &payload); err != nil {
			return nil, err
		}
		n, err := rowNumber(id)
		if err != nil {
			return nil, err
		}
		e.values[n] = maphash.String(e.seed, payload)
	}
	return e, rows.Err()
}

// rowNumber is the number at the end of an event's id.
func rowNumber(id string) (int, error) {
	n, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("event id %q: %w", id, err)
	}
	return int(n), nil
}

// verify reads the topics back: each row once, its bytes, its topic, its partition, and per key the order of commits.
func (b *bed) verify(ctx context.Context, topics []string) error {
	seen := make([]bool, b.rows+1)
	last := map[string]int{} // by key
	count := 0
	var problems []error
	complain := func(format string, args ...any) {
		if len(problems) < 5 {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	err := b.kafka.Each(ctx, topics, func(r *kgo.Record) {
		where := fmt.Sprintf("%s/%d offset %d", r.Topic, r.Partition, r.Offset)
		n, err := rowNumber(header(r, "id"))
		if err != nil || n < 1 || n > b.rows {
			complain("%s: not an event of the load (%v)", where, err)
			return
		}
		if seen[n] {
			complain("%s: row %d a second time", where, n)
			return
		}
		seen[n] = true
		count++
		key := n % aggregateIDs
		if string(r.Key) != fmt.Sprintf("id-%d", key) ||
			!strings.HasSuffix(r.Topic, "."+aggregateTypes[key%len(aggregateTypes)]) {
			complain("%s: row %d under key %q", where, n, r.Key)
		}
		if maphash.Bytes(b.want.seed, r.Value) != b.want.values[n] {
			complain("%s: row %d has another value than the table", where, n)
		}
		if want := oracle.JavaPartition(r.Key, partitions); r.Partition != want {
			complain("%s: the Java client would have chosen partition %d", where, want)
		}
		if last[string(r.Key)] > n {
			complain("%s: row %d follows row %d of its key", where, n, last[string(r.Key)])
		}
		last[string(r.Key)] = n
	})
	if err != nil {
		return err
	}
	if count != b.rows {
		complain("%d of %d rows arrived", count, b.rows)
	}
	return errors.Join(problems...)
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
