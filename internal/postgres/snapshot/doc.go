// Package snapshot reads the initial snapshot: the rows that were in the outbox when the slot was created, which are
// published before anything is streamed. internal/postgres/setup lists their ids in a table; Reader goes through that
// table and removes what is published from it.
package snapshot
