package consumer

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A consumer has three clients of the cluster. One asks, and writes letters, for as long as Run runs. A membership of
// the group has two: one is the member, and one reads the assigned partitions. So the group's protocol says who reads a
// partition, and the offset to begin with is decided here.

// asker sends a request to a broker that can answer it: a *kgo.Client, or a *kgo.Broker.
type asker interface {
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// cluster asks, by one client after the other: a client that was asked to be silent for days ends.
type cluster struct {
	open func() (*asking, error)

	mu  sync.Mutex
	now *asking
}

// asking is a client that asks.
type asking struct {
	asker
	leader       func(id int32) asker
	decompressor kgo.Decompressor // bounded
	writer       interface {
		ProduceSync(ctx context.Context, rs ...*kgo.Record) kgo.ProduceResults
	}
	over  <-chan struct{}
	close func()
}

// client returns a client that has not ended.
func (c *cluster) client() (*asking, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.now.over:
		c.now.close()
		next, err := c.open()
		if err != nil {
			return nil, err
		}
		c.now = next
	default:
	}
	return c.now, nil
}

// close ends the client. No goroutine may ask any more.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.close()
}

const (
	askLimit   = 10 * time.Second
	fetchWait  = 500 * time.Millisecond // how long a broker waits for a first record
	fetchBytes = 1 << 20                // of one partition; a larger batch comes whole all the same (KIP-74)
	fetchMost  = 32 << 20               // of a broker's partitions
	// mostBatch bounds a batch of records that is expanded.
	mostBatch = 256 << 20
	// mostLetter is left to the broker, which has a limit of its own.
	mostLetter = 96 << 20
)

// newClient returns a client whose connections, answers and throttles are bounded. It ends with ctx, or with Close. end
// is called if a broker asks for a silence that the client would keep, for however long it is.
func (o Options) newClient(ctx context.Context, end func(), more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.WithContext(ctx), kgo.SeedBrokers(o.Brokers...), kgo.ClientID(o.Group), kgo.Dialer(o.dialNet()),
		kgo.WithHooks(throttle{o, end}), kgo.DisableClientMetrics(), kgo.MaxVersions(namedVersions(true)),
		kgo.MetadataMinAge(time.Second), kgo.FetchMaxWait(fetchWait), kgo.FetchMaxBytes(fetchMost),
		kgo.FetchMaxPartitionBytes(fetchBytes), kgo.MaxDecompressBatchBytes(mostBatch),
	}
	if o.Login != nil {
		opts = append(opts, kgo.SASL(mechanism{o.Login}))
	}
	return kgo.NewClient(append(opts, more...)...)
}

// newCluster returns a cluster whose clients outlive ctx, because letters are written while handlers drain.
func (o Options) newCluster(ctx context.Context) (c *cluster, err error) {
	c = &cluster{open: func() (*asking, error) { return o.newAsking(context.WithoutCancel(ctx)) }}
	c.now, err = c.open()
	return c, err
}

func (o Options) newAsking(ctx context.Context) (*asking, error) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := o.newClient(ctx, cancel, kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(placed)),
		kgo.RequestRetries(2), // who asks asks again, and says why
		kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), // needs a right of its own on older brokers; repeated letters are recognized
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(mostLetter),
		kgo.RecordDeliveryTimeout(askLimit))
	if err != nil {
		cancel()
		return nil, err
	}
	decompressor, _ := c.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return &asking{
		asker: c, decompressor: decompressor, writer: c, over: ctx.Done(),
		leader: func(id int32) asker { return c.Broker(int(id)) },
		close: func() {
			cancel()
			c.Close()
		},
	}, nil
}

// throttle ends a client that was asked to be silent (KIP-219) for longer than any quota of Kafka asks for.
type throttle struct {
	o   Options
	end func()
}

// mostThrottle is the longest silence that is kept. Kafka's quotas ask for seconds.
const mostThrottle = time.Minute

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t throttle) OnBrokerThrottle(broker kgo.BrokerMetadata, silence time.Duration, _ bool) {
	if silence > mostThrottle {
		t.o.Logger.Warn("a broker asks to be left alone for longer than any quota of Kafka does; a new client asks on",
			"group", t.o.Group, "broker", broker.NodeID, "for", silence.String())
		t.end()
	}
}

// namedVersions are the versions of requests in which topics have names, and not ids alone: the requests of this
// package name them. Reading by the client itself is better by id, so that a topic that was made again is not taken for
// the former one.
func namedVersions(fetch bool) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	v.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	if fetch {
		v.SetMaxKeyVersion(kmsg.Fetch.Int16(), 12)
		v.SetMaxKeyVersion(kmsg.Produce.Int16(), 12)
	}
	return v
}

// placed gives a record to its partition, or to that of its key.
func placed(string) func(r *kgo.Record, partitions int) int {
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return func(r *kgo.Record, partitions int) int {
		if r.Partition >= 0 {
			return int(r.Partition)
		}
		return byKey.Partition(r, partitions)
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialNet opens a connection, with TLS if the options have it.
func (o Options) dialNet() dialFunc {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: askLimit}).DialContext
	}
	if o.TLS == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		cfg := o.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(address)
		}
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		conn := tls.Client(plain, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		return conn, nil
	}
}
