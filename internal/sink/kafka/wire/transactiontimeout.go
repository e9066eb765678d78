package wire

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// The transaction timeouts that InitProducerID asks for. A coordinator refuses one that is longer than its
// transaction.max.timeout.ms, 15 minutes by default, whether or not a transaction follows.
const (
	// TransactionTimeout is exactly-once delivery's.
	TransactionTimeout = time.Minute
	// OwnerTimeout is for a producer without transactions, to which it means nothing.
	OwnerTimeout = 10 * time.Second
)

// MaxTransactionTimeout is the brokers' setting.
const MaxTransactionTimeout = "transaction.max.timeout.ms"

// RaiseTransactionTimeout is the remedy for a cluster that allows less than the timeout.
func RaiseTransactionTimeout(timeout time.Duration) fault.Remedy {
	return fault.Do(fmt.Sprintf("Set %s to %d or more in the configuration of every broker, and restart the brokers "+
		"one after the other.", MaxTransactionTimeout, timeout.Milliseconds()))
}
