package offsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLedgerCountsItsEntries(t *testing.T) {
	l := newLedger()
	a, b := l.push(1, 0), l.push(2, 0)
	require.Equal(t, 2, l.length)
	l.remove(a)
	require.Equal(t, 1, l.length)
	require.Equal(t, b, l.head)
	l.clear()
	require.Zero(t, l.length)
}

// A ticket may name a slot that the ledger never had: the one just past its end, for one.
func TestLedgerLooksNothingUpPastItsEnd(t *testing.T) {
	l := newLedger()
	slot := l.push(1, 0)
	require.NotNil(t, l.lookup(Ticket(slot)|Ticket(l.slots[slot].generation)<<32))
	require.Nil(t, l.lookup(Ticket(len(l.slots))))
	l.remove(slot)
	require.Nil(t, l.lookup(Ticket(slot)))
}
