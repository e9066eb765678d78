// Package statusview prints what cdc-outbox status shows: the status report as text for people.
package statusview
