// Package kafka runs real Apache Kafka brokers for tests, on free ports of 127.0.0.1; they end with the process that
// started them. They run in KRaft combined mode (each node is broker and controller), before Kafka 3 with ZooKeeper.
package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// Options of a cluster. The zero value is one broker of Kafka 4.1 that creates no topic automatically and keeps records
// for ever.
type Options struct {
	Version  string            // as Jars takes it. Default $CDC_OUTBOX_TEST_KAFKA, otherwise 4.1.0
	Brokers  int               // default 1
	Voters   int               // how many of them, from the first on, are controllers too. Default: all
	Settings map[string]string // server.properties on top of the defaults, for all brokers
	Heap     string            // of each JVM. Default "384m"
	JVM      []string          // more arguments of each JVM, for instance -Dname=value
	Port     int               // for the clients of the first broker. Default: a free one
	// Advertise maps a broker's own address to the address that clients receive, a proxy's; called once a broker,
	// before it starts. The brokers talk to each other over another listener, untouched by it. Default: its own.
	Advertise func(node int, addr string) string
	Protocol  string     // of the clients' listener, whose name in Settings is client. Default PLAINTEXT
	Listeners []Listener // for clients, beside that one
}

// Listener is one more way into each broker.
type Listener struct {
	Name      string                             // in capitals
	Protocol  string                             // SSL, SASL_PLAINTEXT, ...
	Settings  map[string]string                  // without their prefix, listener.name.<name>.
	Advertise func(node int, addr string) string // as in Options
}

// Cluster is a running cluster. Its kafkaclient methods create, read and count topics; they use the brokers' own
// listener, past whatever Advertise put in the clients' way.
type Cluster struct {
	*kafkaclient.Client
	Brokers []*Broker // Brokers[i] has node id i+1

	dir       *scratch.Dir
	zookeeper *zookeeper // nil with KRaft
}

// Start starts a cluster and returns when every broker serves clients. Close it.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	jars, err := Jars(opts.Version)
	if err != nil {
		return nil, err
	}
	bin, err := java()
	if err != nil {
		return nil, err
	}
	dir, err := scratch.NewDir("kafka")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.prepare(opts, bin, jars); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	if c.zookeeper != nil {
		if err := c.zookeeper.start(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	// Each format is a JVM start: a second of CPU. The brokers start as soon as theirs is done.
	var g errgroup.Group
	for _, b := range c.Brokers {
		g.Go(func() error {
			if c.zookeeper == nil {
				if err := b.format(); err != nil {
					return err
				}
			}
			return b.launch()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.Client, err = kafkaclient.New(c.direct()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, b := range c.Brokers {
		if err := b.awaitReady(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func (c *Cluster) prepare(opts Options, bin, jars string) error {
	n := max(opts.Brokers, 1)
	var voters []string
	for i := range n {
		b := &Broker{
			Node: i + 1, cluster: c, java: bin, jars: jars, heap: opts.Heap, jvm: opts.JVM,
			dir: c.dir.Join(fmt.Sprintf("node%d", i+1)),
		}
		if b.heap == "" {
			b.heap = "384m"
		}
		for _, p := range []*int{&b.client, &b.internal, &b.controller} {
			var err error
			if *p, err = port.Free(); err != nil {
				return err
			}
		}
		if i == 0 && opts.Port != 0 {
			b.client = opts.Port
		}
		b.addr = port.Addr(b.client)
		if opts.Advertise != nil {
			b.addr = opts.Advertise(b.Node, b.addr)
		}
		if err := b.listen(opts.Listeners); err != nil {
			return err
		}
		if b.votes = opts.Voters == 0 || i < opts.Voters; b.votes {
			voters = append(voters, fmt.Sprintf("%d@%s", b.Node, port.Addr(b.controller)))
		}
		c.Brokers = append(c.Brokers, b)
	}
	if needsZooKeeper(opts.Version) {
		var err error
		if c.zookeeper, err = newZooKeeper(c.Brokers[0], c.dir.Join("zookeeper")); err != nil {
			return err
		}
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	id[0] &= 0x7f        // an id that begins with a dash would read as an option
	for _, b := range c.Brokers {
		b.clusterID = base64.RawURLEncoding.EncodeToString(id)
		if err := b.configure(strings.Join(voters, ","), &opts); err != nil {
			return err
		}
	}
	return nil
}

// Addrs are the bootstrap addresses, as advertised.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, b := range c.Brokers {
		addrs = append(addrs, b.addr)
	}
	return addrs
}

// Inside makes another client that goes past Advertise, with options of its own. Close it.
func (c *Cluster) Inside(opts ...kgo.Opt) (*kafkaclient.Client, error) {
	return kafkaclient.New(c.direct(), opts...)
}

// direct are the addresses of the listener between brokers.
func (c *Cluster) direct() []string {
	var addrs []string
	for _, b := range c.Brokers {
		addrs = append(addrs, port.Addr(b.internal))
	}
	return addrs
}

// Node returns the broker with a node id, as Leader returns it.
func (c *Cluster) Node(id int32) *Broker { return c.Brokers[id-1] }

// Close kills the brokers and removes their data.
func (c *Cluster) Close() error {
	if c.Client != nil {
		c.Client.Close()
	}
	for _, b := range c.Brokers {
		b.Kill()
	}
	if c.zookeeper != nil {
		c.zookeeper.kill()
	}
	return c.dir.Remove()
}
