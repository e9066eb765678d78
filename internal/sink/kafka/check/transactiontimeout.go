package check

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// coordinator connects to the coordinator of the transactional id, or returns the code of the answer.
func (c *checker) coordinator(ctx context.Context, w *wire.Conn, name string) (*wire.Conn, int32, int16, error) {
	res, err := w.RoundTrip(&findcoordinator.Request{Key: name, KeyType: wire.CoordinatesTransactions},
		c.cfg.RequestTimeout)
	if err != nil {
		return nil, 0, 0, err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return nil, 0, found.ErrorCode, nil
	}
	there, err := wire.Dial(ctx, &c.cfg.Cluster, wire.BrokerAddr(found.Host, found.Port))
	return there, found.NodeID, 0, err
}

// transactionTimeout looks whether the coordinator would take the timeout that run asks for. If the user may not read
// the setting, it asks with a transactional id of its own, which fences no producer.
func (c *checker) transactionTimeout(ctx context.Context, w *wire.Conn, name string, timeout time.Duration) error {
	there, node, code, err := c.coordinator(ctx, w, name)
	if err != nil || code != 0 {
		return err // the finding about the transactional id says more about the code
	}
	defer func() { _ = there.Close() }()
	found := ""
	if most, known := c.brokerSetting(there, node, wire.MaxTransactionTimeout); known {
		if most < timeout.Milliseconds() {
			found = fmt.Sprintf("It is %d, and run asks for %d.", most, timeout.Milliseconds())
		}
	} else if c.refusesTimeout(there, name+".check", timeout) {
		found = fmt.Sprintf("The coordinator refuses %d, which run asks for.", timeout.Milliseconds())
	}
	if found != "" {
		c.fail(wire.MaxTransactionTimeout, found, "The coordinator gives no producer id, and nothing is published.",
			wire.RaiseTransactionTimeout(timeout))
	}
	return nil
}

// expiration looks whether the coordinator keeps the id for as long as run relies on it.
func (c *checker) expiration(ctx context.Context, w *wire.Conn, name string) error {
	there, node, code, err := c.coordinator(ctx, w, name)
	if err != nil || code != 0 {
		return err // as above
	}
	defer func() { _ = there.Close() }()
	if kept, known := c.brokerSetting(there, node, wire.IDExpiration); known && kept < wire.OwnerAge.Milliseconds() {
		c.warn(wire.IDExpiration, fmt.Sprintf("It is %d.", kept), "After that long the coordinator forgets who has "+
			"the transactional id. An instance that was suspended for longer is then not kept out, and may publish "+
			"old events after newer ones.",
			fault.Do(fmt.Sprintf("Set it to %d or more in the configuration of every broker, and restart the "+
				"brokers one after the other. The default is 7 days.", wire.OwnerAge.Milliseconds())))
	}
	return nil
}

// brokerSetting reads a number from the configuration of the broker at the other end.
func (c *checker) brokerSetting(w *wire.Conn, node int32, name string) (value int64, known bool) {
	res, err := w.RoundTrip(&describeconfigs.Request{Resources: []describeconfigs.RequestResource{{
		ResourceType: wire.ResourceBroker, ResourceName: strconv.Itoa(int(node)), ConfigNames: []string{name},
	}}}, c.cfg.RequestTimeout)
	if err != nil {
		return 0, false
	}
	for _, r := range res.(*describeconfigs.Response).Resources {
		for _, e := range r.ConfigEntries {
			if e.ConfigName == name {
				value, err = strconv.ParseInt(e.ConfigValue, 10, 64)
				return value, err == nil
			}
		}
	}
	return 0, false
}

func (c *checker) refusesTimeout(w *wire.Conn, name string, timeout time.Duration) bool {
	res, err := w.RoundTrip(&initproducerid.Request{
		TransactionalID: name, TransactionTimeoutMs: int32(timeout.Milliseconds()), ProducerID: -1, ProducerEpoch: -1,
	}, c.cfg.RequestTimeout)
	return err == nil && res.(*initproducerid.Response).ErrorCode == wire.InvalidTransactionTimeout
}
