// Package forward hands the records of topics to an HTTP endpoint, with a ledger in Postgres. It is for services
// without a consumer of their own: package inbox/consumer reads the topics, package inbox remembers the handled events,
// and this package makes the call between them.
//
// # Guarantees to an endpoint
//
//   - By default each event is delivered at least once, with its id as Idempotency-Key. The call runs inside the
//     ledger's transaction, so an event is called for again only if the process or its database ends between the call
//     and the commit, or if the outcome of the call is unknown. The endpoint recognizes the repeat by the key.
//   - With Options.AtMostOnce the claim is committed before the call. An event whose outcome is unknown becomes a dead
//     letter instead of a second call. Such a request carries no Idempotency-Key: net/http repeats a request with that
//     header.
//   - The records of a partition are called for one at a time, in their order.
package forward
