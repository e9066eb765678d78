// Package fakebroker runs an in-process Kafka imitation (kfake) for hermetic tests and for the demo: it starts in
// milliseconds and answers with any error asked for. What it does not imitate is proved on the real broker
// (testkit/kafka): it is stricter about the first sequence of a fresh producer id, and answers INVALID_PRODUCER_EPOCH
// as PRODUCER_FENCED's older number.
package fakebroker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// Options of a fake cluster. The zero value is one broker without topics that creates none automatically.
type Options struct {
	Brokers    int              // default 1
	Topics     map[string]int32 // name to number of partitions, created at the start
	AutoCreate bool             // topics come into being when a client that asks for it requests their metadata
	Partitions int              // of topics created without a number. Default 3
	// log.retention.ms. Default "-1", for ever: a record's timestamp may be of any age, and must not expire it
	Retention string
	Dir       string      // keep the data there, so that a later broker finds it. Default "": in memory
	Ports     []int       // fixed ports, one a broker. Default: free ones
	More      []kfake.Opt // anything else kfake knows: SASL, TLS, ACLs, broker configs
}

// Broker is a running fake cluster. The kfake.Cluster's own methods inject faults: Fault, ControlKey,
// MoveTopicPartition, AddNode, RemoveNode, ...
type Broker struct {
	*kfake.Cluster
	*kafkaclient.Client
}

// Start starts a cluster. Close it.
func Start(opts Options) (*Broker, error) {
	brokers, partitions, retention := max(opts.Brokers, 1), opts.Partitions, opts.Retention
	if partitions == 0 {
		partitions = 3
	}
	if retention == "" {
		retention = "-1"
	}
	all := []kfake.Opt{
		kfake.NumBrokers(brokers), kfake.DefaultNumPartitions(partitions),
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": retention}),
	}
	for topic, n := range opts.Topics {
		all = append(all, kfake.SeedTopics(n, topic))
	}
	if opts.AutoCreate {
		all = append(all, kfake.AllowAutoTopicCreation())
	}
	if opts.Dir != "" {
		all = append(all, kfake.DataDir(opts.Dir))
	}
	if len(opts.Ports) > 0 {
		all = append(all, kfake.Ports(opts.Ports...))
	}
	cluster, err := kfake.NewCluster(append(all, opts.More...)...)
	if err != nil {
		return nil, fmt.Errorf("start the fake broker: %w", err)
	}
	client, err := kafkaclient.New(cluster.ListenAddrs())
	if err != nil {
		cluster.Close()
		return nil, err
	}
	return &Broker{Cluster: cluster, Client: client}, nil
}

// Addrs are the bootstrap addresses.
func (b *Broker) Addrs() []string { return b.ListenAddrs() }

// Close ends the cluster and everything connected to it.
func (b *Broker) Close() {
	b.Client.Close()
	b.Cluster.Close()
}
