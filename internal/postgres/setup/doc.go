// Package setup creates, checks and removes what the relay needs in Postgres: publication, slot, checkpoint table,
// grants and the list of rows of the initial snapshot. It also holds the commands that change a slot, and looks for
// poolers.
//
// Reading the catalogs and judging them are apart. readState reads a state, the checks are pure functions from a state
// to findings, and a plan is a list of SQL statements with a reason for each. Ensure and Run carry a plan out,
// Preflight prints the findings.
package setup
