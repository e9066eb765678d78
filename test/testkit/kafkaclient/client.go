// Package kafkaclient is the tests' own view of Kafka, on franz-go: another client than the product's, so that a
// mistake in one is not repeated in the judgement of the other. It reads whole topics back and creates them.
package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topic is a topic to create.
type Topic struct {
	Name       string
	Partitions int32             // default 1
	Replicas   int16             // default -1, the cluster's default
	Configs    map[string]string // e.g. {"min.insync.replicas": "2"}
}

// Client talks to one cluster. Close it.
type Client struct {
	seeds []string
	opts  []kgo.Opt
	admin *kadm.Client
	once  *kadm.Client // asks one broker, once: see Ends
}

// New makes a client; opts (SASL, TLS) are used for every connection.
func New(seeds []string, opts ...kgo.Opt) (*Client, error) {
	c := &Client{seeds: seeds, opts: opts}
	cl, err := c.connect()
	if err != nil {
		return nil, err
	}
	c.admin = kadm.NewClient(cl)
	once, err := c.connect(kgo.RequestRetries(0))
	if err != nil {
		c.admin.Close()
		return nil, err
	}
	c.once = kadm.NewClient(once)
	return c, nil
}

func (c *Client) connect(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryTimeout(10 * time.Second),
	}, c.opts...)
	return kgo.NewClient(append(opts, more...)...)
}

// Close ends the client's connections and goroutines.
func (c *Client) Close() {
	c.admin.Close()
	c.once.Close()
}

// Admin is the administrative client for what has no method here; it stays the Client's.
func (c *Client) Admin() *kadm.Client { return c.admin }

// Ends returns the topics' end offsets by topic and partition, without a second attempt. A caller's deadline may end
// before the answer arrives. franz-go 1.22 then hands the same request to the next broker although the first connection
// still reads it, which the race detector reports.
func (c *Client) Ends(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
	listed, err := c.once.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	return listed, err
}

// Create creates topics and returns when every partition has a leader.
func (c *Client) Create(ctx context.Context, topics ...Topic) error {
	for _, t := range topics {
		partitions, replicas := max(t.Partitions, 1), t.Replicas
		if replicas == 0 {
			replicas = -1
		}
		configs := map[string]*string{}
		for k, v := range t.Configs {
			configs[k] = &v
		}
		if _, err := c.admin.CreateTopic(ctx, partitions, replicas, configs, t.Name); err != nil {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
		if err := c.awaitLeaders(ctx, t.Name, int(partitions)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) awaitLeaders(ctx context.Context, topic string, partitions int) error {
	for {
		md, err := c.admin.Metadata(ctx, topic)
		if err == nil {
			led := 0
			for _, p := range md.Topics[topic].Partitions {
				if p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
			if led == partitions {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s has no leaders: %w", topic, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitInSync waits until every partition of the cluster, Kafka's own too, has a leader and all its replicas in sync.
func (c *Client) AwaitInSync(ctx context.Context) error {
	for {
		behind := "the cluster does not answer"
		if topics, err := c.admin.ListTopicsWithInternal(ctx); err == nil {
			behind = ""
			topics.EachPartition(func(p kadm.PartitionDetail) {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					behind = fmt.Sprintf("%s/%d: leader %d, %v of %v in sync", p.Topic, p.Partition, p.Leader, p.ISR,
						p.Replicas)
				}
			})
		}
		if behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", behind, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Delete deletes topics.
func (c *Client) Delete(ctx context.Context, topics ...string) error {
	resp, err := c.admin.DeleteTopics(ctx, topics...)
	if err != nil {
		return err
	}
	return resp.Error()
}

// Leader is the node that leads a partition, -1 while there is none.
func (c *Client) Leader(ctx context.Context, topic string, partition int32) (int32, error) {
	md, err := c.admin.Metadata(ctx, topic)
	if err != nil {
		return -1, err
	}
	p, ok := md.Topics[topic].Partitions[partition]
	if !ok {
		return -1, fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	return p.Leader, nil
}

// Count is the number of offsets written to the topics: records, and with transactions their control markers too.
func (c *Client) Count(ctx context.Context, topics ...string) (int64, error) {
	ends, err := c.ends(ctx, topics)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, partitions := range ends {
		for _, end := range partitions {
			n += end
		}
	}
	return n, nil
}

// ends asks again while a partition elects its leader, as one does that was created a moment ago.
func (c *Client) ends(ctx context.Context, topics []string) (map[string]map[int32]int64, error) {
	var listed kadm.ListedOffsets
	ask := func() (err error) {
		if listed, err = c.admin.ListEndOffsets(ctx, topics...); err == nil {
			err = listed.Error()
		}
		return err
	}
	err := ask()
	for tries := 0; tries < 300 && errors.Is(err, kerr.LeaderNotAvailable) && ctx.Err() == nil; tries++ {
		time.Sleep(100 * time.Millisecond)
		err = ask()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends := map[string]map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if ends[o.Topic] == nil {
			ends[o.Topic] = map[int32]int64{}
		}
		ends[o.Topic][o.Partition] = o.Offset
	})
	return ends, nil
}

// Read returns every record that the topics have, to the end as it is when Read begins, in offset order within a
// partition.
func (c *Client) Read(ctx context.Context, topics ...string) ([]*kgo.Record, error) {
	var records []*kgo.Record
	err := c.Each(ctx, topics, func(r *kgo.Record) { records = append(records, r) })
	return records, err
}

// Each calls see for every record that Read would return, without keeping them. With
// kgo.FetchIsolationLevel(kgo.ReadCommitted()) among the Client's options aborted records are left out.
func (c *Client) Each(ctx context.Context, topics []string, see func(*kgo.Record)) error {
	ends, err := c.ends(ctx, topics)
	if err != nil {
		return err
	}
	starts, err := c.admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("list start offsets: %w", err)
	}
	assign := map[string]map[int32]kgo.Offset{}
	left := 0
	for topic, partitions := range ends {
		assign[topic] = map[int32]kgo.Offset{}
		for p, end := range partitions {
			start, _ := starts.Lookup(topic, p)
			if start.Offset < end { // otherwise it is empty, or all of its records were deleted: none may ever come
				assign[topic][p] = kgo.NewOffset().At(start.Offset)
				left++
			}
		}
	}
	if left == 0 {
		return nil
	}
	// Control records are fetched and dropped here: without them a partition that ends in a marker would never look
	// finished.
	cl, err := c.connect(kgo.ConsumePartitions(assign), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end := ends[r.Topic][r.Partition]
			if end == 0 {
				return // read to its end
			}
			if r.Offset < end && !r.Attrs.IsControl() {
				see(r)
			}
			// The record at the end may never come: the transaction that was open when we looked was aborted since. Its
			// marker comes instead.
			if r.Offset >= end-1 {
				ends[r.Topic][r.Partition] = 0
				left--
			}
		})
	}
	return nil
}

// Await waits until the topics hold at least n offsets (see Count). A cluster that does not answer is waited for too,
// until ctx ends.
func (c *Client) Await(ctx context.Context, n int64, topics ...string) error {
	for {
		have, err := c.Count(ctx, topics...)
		if err == nil && have >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records arrived: %w", have, n, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
