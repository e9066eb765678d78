package offsets

import "github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

// LSN is a position in the write-ahead log.
type LSN = lsn.LSN

// Position names one row of the log for good: the LSN of its transaction's commit record and the row's index among
// the rows of that transaction that Tracker.Add was called for, from 0.
type Position = lsn.Position

// ParsePosition reads the text that Position.AppendText writes and nothing else.
func ParsePosition(s string) (Position, error) { return lsn.ParsePosition(s) }
