// Package statusview prints what cdc-outbox status and monitor show, as text for people: the status report, and the
// table of slots.
package statusview
