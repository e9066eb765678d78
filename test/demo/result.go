package main

import (
	"fmt"
	"strings"
)

// result is what the demo ends with.
type result struct {
	writing writing
	relay   relayStatus // just before the connector was stopped
	reading reading
	inTable uint64 // rows of the outbox
	records uint64 // in Kafka
	crashes int    // of the connector
	billing billing
	wal     wal   // after the connector stopped
	slotErr error // of the two figures before
	exit    int   // the connector's exit code after SIGTERM
}

// table prints the counts.
func (r *result) table() string {
	var b strings.Builder
	line := func(name, value, note string) {
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-26s %12s  %s", name, value, note), " "))
	}
	l := r.reading.latency
	line("committed to the outbox", number(r.writing.committed),
		fmt.Sprintf("events in %s transactions; the table holds %s rows", number(r.writing.transactions),
			number(r.inTable)))
	line("published", number(r.records), "records in Kafka")
	line("consumed", number(r.reading.consumed), "different events")
	line("rolled back, published", number(r.reading.phantoms),
		fmt.Sprintf("of %s rolled back", number(r.writing.rolledBack)))
	line("duplicates", number(r.reading.duplicates), r.why())
	line("handled by billing", number(r.billing.lines),
		fmt.Sprintf("once each, through the inbox; %s duplicates absorbed", number(r.billing.absorbed)))
	line("order violations", number(r.reading.disorder), "per key")
	before := ""
	if r.crashes > 0 {
		before = "   (before the crash)"
	}
	line("commit -> consumer", "", fmt.Sprintf("p50 %s   p95 %s   p99 %s   max %s", millis(l.p50), millis(l.p95),
		millis(l.p99), millis(l.max))+before)
	line("retained WAL", size(r.wal.retained), fmt.Sprintf("held back by the slot at the end; %s not confirmed",
		size(r.wal.unconfirmed)))
	return b.String()
}

func (r *result) why() string {
	if r.crashes == 0 {
		return ""
	}
	return fmt.Sprintf("sent again after kill -9 of the connector, %d time(s)", r.crashes)
}

// differences says what is not as promised; empty when all is.
func (r *result) differences() []string {
	var d []string
	differ := func(bad bool, format string, args ...any) {
		if bad {
			d = append(d, fmt.Sprintf(format, args...))
		}
	}
	committed := r.writing.committed
	differ(committed == 0, "nothing was committed, so nothing was shown")
	differ(r.slotErr != nil, "the outbox or the slot cannot be looked at: %v", r.slotErr)
	differ(r.slotErr == nil && r.inTable != committed, "the outbox holds %d rows, but %d events were committed",
		r.inTable, committed)
	differ(r.crashes == 0 && r.relay.Counts.Published != committed, "published %d, committed %d",
		r.relay.Counts.Published, committed)
	differ(r.records != committed+r.reading.duplicates, "Kafka holds %d records of %d events and %d duplicates",
		r.records, committed, r.reading.duplicates)
	differ(r.reading.consumed != committed, "consumed %d, committed %d", r.reading.consumed, committed)
	differ(r.reading.missing > 0, "%d events were left out of their key's order and never came", r.reading.missing)
	differ(r.reading.phantoms > 0, "%d events that were rolled back arrived", r.reading.phantoms)
	differ(r.crashes == 0 && r.reading.duplicates > 0, "%d events arrived again", r.reading.duplicates)
	differ(r.reading.disorder > 0, "%d events arrived before an earlier one of their key", r.reading.disorder)
	differ(r.billing.lines != committed || r.billing.events != committed,
		"billing has %d lines for %d events, committed %d", r.billing.lines, r.billing.events, committed)
	differ(r.billing.err != nil, "billing cannot be looked at: %v", r.billing.err)
	differ(r.reading.garbled > 0, "%d records are not events of the shop", r.reading.garbled)
	differ(r.exit == -1, "cdc-outbox did not end within %s after SIGTERM", stopLimit)
	differ(r.exit > 0, "cdc-outbox ended with exit code %d after SIGTERM", r.exit)
	for _, w := range r.relay.Waits {
		differ(r.reading.consumed != committed, "cdc-outbox waits: %s: %s. Next: %s", w.Object, w.Reason, w.Next)
	}
	return d
}
