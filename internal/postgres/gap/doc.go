// Package gap keeps what made the account of a slot incomplete: the stretches of the log whose rows may never have come
// through it. A gap is a debt. It is a row of a table beside the checkpoint, opened by what found it, shown by every
// view, and settled by a repair or by an operator's decision.
//
// Two things open gaps. A command that moves or replaces a slot opens one with [Table.Begin]. And [Table.Look] compares
// what decides which rows are in the stream, the [Evidence], with the last check's: the log is read with the catalog as
// it was when a row was written, so a publication that was changed and changed back has hidden rows that nothing in the
// present shows.
//
// Times are the server's. A caller that wants the rows of a gap by a column's time has to allow for the time between
// the row and its commit: from is before every transaction that may hold hidden rows took its number.
package gap
