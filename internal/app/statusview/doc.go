// Package statusview prints the answers of cdc-outbox status and monitor as text for people: the status report, and the
// table of slots.
package statusview
