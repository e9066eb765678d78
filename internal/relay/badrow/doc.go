// Package badrow applies the policies to bad rows: the counting, the log, /status and the letter in the dead-letter
// topic are the same whether a row was read from the log or polled from the table. Whether a halted row stops the
// stream or a lane is the source's matter.
package badrow
