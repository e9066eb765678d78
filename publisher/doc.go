// Package publisher embeds the polling relay in a service, for teams that want no second process. It publishes the
// committed rows of an outbox table to Kafka, with the code and the promises of cdc-outbox with source: polling
// (docs/polling.md): at least once, in order per key, nothing lost. A process that was frozen or cut off for longer
// than ten seconds, or killed with packets in transit, may repeat an event after newer events of its key.
//
//	p, err := publisher.New(publisher.Options{
//		DSN: dsn, Brokers: []string{"kafka:9092"}, Tables: []string{"outbox"},
//	})
//	...
//	g.Go(func() error { return p.Run(ctx) })
//	...
//	err = outbox.Insert(ctx, tx, event)
//	err = tx.Commit(ctx)
//	p.Kick() // do not wait for the next query
//
// Several instances of a service may each run one, beside a process cdc-outbox or without it: they divide the lanes of
// the table among them.
//
// # The caller's duties
//
//  1. Prepare the table. SQL returns the statements, for the service's migrations; cdc-outbox setup does it, too. Run
//     reports missing objects, tries again, and publishes as soon as they exist.
//  2. Run it until the service stops, in one goroutine, and wait for it: when its context ends, Run waits for the
//     acknowledgements of the rows in flight and marks these, for eight seconds at most. Rows that a killed process has
//     not marked are published again.
//  3. Watch it. Run stays through errors that an operator has to fix, such as a missing privilege. Use Ready for the
//     service's readiness or for an alert, the metrics in Options.Registerer, and the log. It sends no alerts:
//     cdc-outbox monitor does, beside the services.
//  4. Kick only after the commit. A kick before it finds nothing, and the row is found by the next query, up to
//     polling.interval later (100 ms).
//  5. Count its connections: one for each worker (polling.workers, 2), one for the size of the backlog, one for
//     operators' decisions, one with polling.notify. They are not from the service's pool, because each holds a
//     transaction while Kafka acknowledges.
//  6. Expect repeats. Consumers handle each event once by its id, for example with package inbox.
//
// # Compatibility
//
// This package is part of the module of the program and has its version. It links the program's parts for Postgres,
// routing and Kafka, with all of its logins. An application that only writes events requires module outbox, which
// links none of them.
package publisher
