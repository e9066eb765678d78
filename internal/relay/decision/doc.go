// Package decision keeps operators' decisions about a relay that runs: to pass a halted row, to pause, to resume. A
// decision is a row of a table in the outbox's own database, written by a command and taken up by the process that
// holds the slot, without a restart. The table also lists the rows at which the relay is halted, so that a command can
// bind a decision to exactly one row without asking the process.
//
// A decision about a row is bound to the row's position and event id, which no other row has. So it may be met again
// and again: a process that crashes between taking it up and confirming the row meets the row again, finds the
// decision, and applies it again. Closing a decision is for the list only.
//
// [Plan] is pure: it derives the steps from the rows of the table and the state of the relay.
package decision
