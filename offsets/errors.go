package offsets

import "fmt"

// Broken names the rule a StreamError or an AckError reports as broken.
type Broken uint8

const (
	// BrokenNesting: Begin inside a transaction, or a row or a Commit outside one.
	BrokenNesting Broken = iota + 1
	// BrokenOrder: a transaction whose commit record lies below the position that this stream has already passed, or a
	// Commit whose end is not after its commit record.
	BrokenOrder
	// BrokenGap: after Resume the stream went past a transaction that is not confirmed. It started too far ahead, so
	// transactions that were never received may have been passed over as well.
	BrokenGap
	// BrokenRepeat: a transaction repeated after Resume does not have the rows it had the first time, so an index
	// no longer names the same row.
	BrokenRepeat
	// BrokenLimit: more rows in one transaction than an index can count (2^32 - 1).
	BrokenLimit
)

var brokenTexts = [...]string{
	BrokenNesting: "begin, rows and commit are out of step",
	BrokenOrder:   "the stream goes backwards",
	BrokenGap:     "the stream went past a transaction that is not confirmed",
	BrokenRepeat:  "a repeated transaction differs from its first delivery",
	BrokenLimit:   "too many rows in one transaction",
}

// String returns the rule as a clause.
func (b Broken) String() string {
	if int(b) < len(brokenTexts) && b > 0 {
		return brokenTexts[b]
	}
	return "unknown rule"
}

// StreamError reports a stream, or a caller, that broke a rule on which "confirmed" rests. Going on could lose rows,
// so it is fatal to the session; the tracker's state is as it was before the call.
type StreamError struct {
	Broken Broken
	At     LSN    // commit LSN (Begin, Add) or end LSN (Commit) at hand; 0 if there is none
	Other  LSN    // the LSN it contradicts: a commit LSN, an end LSN or the confirmed position; 0 if there is none
	Rows   uint32 // BrokenRepeat: rows in this delivery so far
	Before uint32 // BrokenRepeat: rows in the first delivery
}

// Error implements error.
func (e *StreamError) Error() string {
	if e.Broken == BrokenRepeat {
		return fmt.Sprintf("offsets: %s: transaction %s, %d rows now, %d rows before", e.Broken, e.At, e.Rows, e.Before)
	}
	return fmt.Sprintf("offsets: %s: %s against %s", e.Broken, e.At, e.Other)
}

// AckError reports tickets of the current session that were acknowledged more often than they were handed out, a
// programming error in the caller. It can come late: a second ack of one row is mistaken for the first ack of another
// row of its transaction, so Confirmed may already be too high.
type AckError struct {
	Tickets   int    // how many acks of the call had nothing to acknowledge
	First     Ticket // the first of them
	Confirmed LSN    // the confirmed position after the call
}

// Error implements error.
func (e *AckError) Error() string {
	return fmt.Sprintf("offsets: %d acks without an outstanding row, first ticket %#016x, confirmed %s", e.Tickets,
		e.First, e.Confirmed)
}
