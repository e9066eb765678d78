// Package outboxtable reads the outbox table itself, for the commands that publish its rows again or delete them: Rows
// pages through it, a Filter chooses rows, a Horizon says which rows may be deleted, and a Partition can be dropped as
// a whole.
package outboxtable
