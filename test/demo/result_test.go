package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func agreeing() result {
	r := result{
		writing: writing{transactions: 7, committed: 10, rolledBack: 2}, reading: reading{consumed: 10}, inTable: 10,
		records: 10, billing: billing{lines: 10, events: 10},
	}
	r.relay.Counts.Published = 10
	return r
}

func TestDifferences(t *testing.T) {
	r := agreeing()
	require.Empty(t, r.differences())
	changes := map[string]func(*result){
		"nothing was committed":        func(r *result) { *r = result{} },
		"the outbox holds 9":           func(r *result) { r.inTable = 9 },
		"cannot be looked at: cut":     func(r *result) { r.slotErr = errors.New("cut") },
		"published 11, committed 10":   func(r *result) { r.relay.Counts.Published = 11 },
		"consumed 9, committed 10":     func(r *result) { r.reading.consumed = 9 },
		"left out":                     func(r *result) { r.reading.missing = 1 },
		"rolled back arrived":          func(r *result) { r.reading.phantoms = 1 },
		"arrived again":                func(r *result) { r.reading.duplicates, r.records = 1, 11 },
		"Kafka holds 11 records":       func(r *result) { r.records = 11 },
		"billing has 11 lines for 10":  func(r *result) { r.billing.lines = 11 },
		"looked at: away":              func(r *result) { r.billing.err = errors.New("away") },
		"before an earlier one":        func(r *result) { r.reading.disorder = 1 },
		"are not events of the shop":   func(r *result) { r.reading.garbled = 1 },
		"exit code 3 after SIGTERM":    func(r *result) { r.exit = 3 },
		"did not end within 20s after": func(r *result) { r.exit = -1 },
	}
	for want, change := range changes {
		t.Run(want, func(t *testing.T) {
			r := agreeing()
			change(&r)
			d := r.differences()
			require.Len(t, d, 1)
			require.Contains(t, d[0], want)
		})
	}
}

// After a crash repeats are as promised, as long as they were absorbed.
func TestDifferencesAfterACrash(t *testing.T) {
	r := agreeing()
	r.crashes, r.reading.duplicates, r.records, r.relay.Counts.Published = 1, 3, 13, 4
	require.Empty(t, r.differences())
	require.Contains(t, r.table(), "kill -9")
	r.billing.lines = 13
	require.Len(t, r.differences(), 1)
}

func TestTable(t *testing.T) {
	r := agreeing()
	r.writing.committed = 1234567
	require.Contains(t, r.table(), "committed to the outbox       1,234,567  events in 7 transactions; the table "+
		"holds 10 rows\n")
	require.Contains(t, r.table(), "rolled back, published                0  of 2 rolled back\n")
}

func TestFigures(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, number(n))
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 2048: "2 KiB", 3 << 19: "1.5 MiB"} {
		require.Equal(t, want, size(n))
	}
	require.Equal(t, "12.3 ms", millis(12_345_000))
}
