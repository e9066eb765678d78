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

// OwnerAge is for how long a producer without transactions goes by what its coordinator said last. A coordinator that
// forgets ids earlier gives a new id to an instance that takes over, and does not keep the former instance out.
const OwnerAge = 20 * time.Hour

// IDExpiration is the brokers' setting: after that long without a transaction or a new epoch an id is forgotten.
const IDExpiration = "transactional.id.expiration.ms"

// MaxTransactionTimeout is the brokers' setting.
const MaxTransactionTimeout = "transaction.max.timeout.ms"

// RaiseTransactionTimeout is the remedy for a cluster that allows less than the timeout.
func RaiseTransactionTimeout(timeout time.Duration) fault.Remedy {
	return fault.Do(fmt.Sprintf("Set %s to %d or more in the configuration of every broker, and restart the brokers "+
		"one after the other.", MaxTransactionTimeout, timeout.Milliseconds()))
}
