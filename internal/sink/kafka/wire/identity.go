package wire

import (
	"fmt"
	"sync"

	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Identity is the Kafka cluster that connections lead to, by the id that its brokers name (KIP-78). It is the first
// answer's for good: a producer id, an offset and an acknowledgement mean something in one cluster only, so a broker of
// another one is not used. An acknowledgement of it would confirm what the first cluster never got, and it takes the
// batches of another producer with the same id for repeats.
type Identity struct {
	mu   sync.Mutex
	id   string
	from string // the address of the broker that named it first
}

// maxClusterID bounds an id. Kafka's have 22 characters, and the longest known, names of hosts, have 255.
const maxClusterID = 255

// ID is the cluster's id, empty while no broker has named it.
func (i *Identity) ID() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

// admit takes the id that the broker at addr has named, empty for a broker that names none.
func (i *Identity) admit(id, addr string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case id == "" || id == i.id:
		return nil
	case len(id) > maxClusterID: // it would be kept in Postgres, and quoted in each line about it
		return &DialError{
			sink.Rejected, fmt.Errorf("the broker at %s names its cluster with %d bytes, more than %d", addr, len(id),
				maxClusterID), "Let kafka.brokers name brokers of Kafka.", "",
		}
	case i.id == "":
		i.id, i.from = id, addr
		return nil
	}
	whose := "the broker at " + i.from
	if i.from == addr {
		whose = "the broker that answered there before"
	}
	return &DialError{
		sink.Rejected,
		fmt.Errorf("the broker at %s is of the Kafka cluster %q, and %s is of %q", addr, id, whose, i.id),
		"Let kafka.brokers name brokers of one cluster. If Kafka was replaced by another cluster on purpose, restart " +
			"this process: it goes on there, and keeps a gap over all that only the old cluster had.", "",
	}
}

// identify refuses a broker of another cluster. A request for no topics needs no right.
func (w *Conn) identify(c *Cluster) error {
	res, err := w.RoundTrip(&metadata.Request{TopicNames: []string{}}, c.DialTimeout)
	if err != nil {
		return &DialError{sink.BrokerUnreachable, err, "", w.Addr}
	}
	return c.Identity.admit(res.(*metadata.Response).ClusterID, w.Addr)
}
