// Package broker imitates a Kafka cluster, as far as the producer speaks with it: metadata, idempotent and
// transactional appends with Kafka's rules for producer ids, epochs and sequences, a transaction coordinator, and the
// offsets of groups. It runs in a bubble of testing/synctest.
package broker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
)

// Record is a record in a partition's log.
type Record struct {
	Key, Value string
	Producer   int64
	Epoch      int16
	At         time.Time
	txn        *outcome // nil: not part of a transaction
}

// outcome is how a transaction ended, shared by its records.
type outcome struct{ committed atomic.Bool }

// Committed reports whether a consumer with isolation.level=read_committed sees the record.
func (r *Record) Committed() bool { return r.txn == nil || r.txn.committed.Load() }

// Partition is one log.
type Partition struct {
	Topic  string
	Index  int32
	Log    []Record
	leader int32
	epoch  int32
	last   map[int64]*producerState
}

// Fate is what becomes of a request.
type Fate struct {
	Delay  time.Duration // before it is worked on
	Answer time.Duration // before the answer goes out
	Lost   bool          // the connection is cut instead of the answer
	Code   int16         // for every partition of a Produce request, instead of appending
	After  bool          // Code is answered after the append
	Busy   int16         // a coordinator's answer, instead of doing what is asked
}

// Config says what kind of cluster it is.
type Config struct {
	Brokers    int
	Topics     map[string]int32 // partitions
	MarkerTime time.Duration    // between the end of a transaction and its markers
	OffsetTime time.Duration    // from there until the group's offsets are the transaction's
	// Kafka4: the owner of a transaction that the coordinator has aborted gets the epoch of the abort when it asks with
	// the epoch before.
	Kafka4 bool
}

// Cluster is the stand-in. All its methods may be called from anywhere.
type Cluster struct {
	cfg Config
	net *network.Network

	mu         sync.Mutex
	down       map[int32]bool
	partitions map[string][]*Partition
	names      []string
	lastID     int64
	txns       map[string]*transaction
	groups     map[string]*group
	requests   uint64

	// Fate, where set, decides about each request, by its number.
	Fate func(n uint64, node int32, key int16) Fate
	// Appended, where set, sees each batch when it is in the log.
	Appended func(p *Partition, records []Record)
	// Said, where set, hears what the cluster did, for the trace.
	Said func(format string, args ...any)
}

// New returns a running cluster that listens at Address of each broker.
func New(cfg Config, net *network.Network) *Cluster {
	c := &Cluster{
		cfg: cfg, net: net, down: map[int32]bool{}, partitions: map[string][]*Partition{}, lastID: 1000,
		txns: map[string]*transaction{}, groups: map[string]*group{},
	}
	for name := range cfg.Topics {
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	for _, name := range c.names {
		c.create(name, cfg.Topics[name])
	}
	for id := range int32(cfg.Brokers) {
		c.listen(id)
	}
	return c
}

// ClusterID is the id of the cluster, whatever becomes of it.
const ClusterID = "simulated"

// Address is where a broker listens.
func Address(id int32) string { return fmt.Sprintf("10.0.1.%d:9092", id+1) }

func (c *Cluster) listen(id int32) {
	c.net.Listen(Address(id), func(conn *network.Conn) { c.serve(conn, id) })
}

func (c *Cluster) say(format string, args ...any) {
	if c.Said != nil {
		c.Said(format, args...)
	}
}

// create is called with the lock held, or before the cluster runs.
func (c *Cluster) create(name string, partitions int32) {
	for i := range partitions {
		c.partitions[name] = append(c.partitions[name], &Partition{
			Topic: name, Index: i, leader: (i + int32(len(name))) % int32(c.cfg.Brokers),
			last: map[int64]*producerState{},
		})
	}
	if !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
}

// Create creates a topic.
func (c *Cluster) Create(name string, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.create(name, partitions)
}

// Delete deletes a topic, with all that its partitions know of producers.
func (c *Cluster) Delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.partitions, name)
	c.names = slices.DeleteFunc(c.names, func(other string) bool { return other == name })
}

// Stop ends a broker. Its partitions move to the others after a while, where there are others.
func (c *Cluster) Stop(id int32) {
	c.mu.Lock()
	c.down[id] = true
	c.mu.Unlock()
	c.net.Refuse(Address(id))
}

// Start starts a broker again.
func (c *Cluster) Start(id int32) {
	c.mu.Lock()
	c.down[id] = false
	c.mu.Unlock()
	c.listen(id)
}

// Elect moves the partitions of stopped brokers to running ones.
func (c *Cluster) Elect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.names {
		for _, p := range c.partitions[name] {
			if c.down[p.leader] {
				c.move(p)
			}
		}
	}
}

// Move moves the leadership of the nth partition of all.
func (c *Cluster) Move(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Partition
	for _, name := range c.names {
		all = append(all, c.partitions[name]...)
	}
	c.move(all[n%len(all)])
}

func (c *Cluster) move(p *Partition) {
	for i := range int32(c.cfg.Brokers) {
		next := (p.leader + 1 + i) % int32(c.cfg.Brokers)
		if !c.down[next] && next != p.leader {
			p.leader = next
			p.epoch++
			c.say("%s/%d is led by broker %d", p.Topic, p.Index, next)
			return
		}
	}
}

// Partitions lists the logs, for reading when nothing runs any more or with copies.
func (c *Cluster) Partitions() (all []Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.names {
		for _, p := range c.partitions[name] {
			copied := *p
			copied.Log = slices.Clone(p.Log)
			all = append(all, copied)
		}
	}
	return all
}

// coordinator is the broker that answers for ids and groups.
func (c *Cluster) coordinator() int32 {
	for id := range int32(c.cfg.Brokers) {
		if !c.down[id] {
			return id
		}
	}
	return 0
}
