// Package badrow applies the policies to bad rows: what is counted, logged, shown in /status and written to the
// dead-letter topic is the same whether a row was read from the log or polled from the table. Whether a halted row
// stops the stream or a lane is the source's matter.
package badrow
