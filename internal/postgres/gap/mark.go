package gap

import "time"

// mark is a moment that may become the account's from: a position, and the first transaction that had no number yet.
// It becomes one when every transaction with a lower number has ended, and what those committed is confirmed. Then
// whatever is hidden from the stream later is of a transaction that began after it.
type mark struct {
	LSN  uint64    `json:"lsn"`
	At   time.Time `json:"at"`
	Next uint64    `json:"next"` // transaction number
	Done uint64    `json:"done"` // position by which the transactions with lower numbers had ended; 0: not yet
}

// advance takes a check into account: its own mark, the oldest transaction that runs, where the log ends, and how far
// the slot is confirmed. It returns the mark to go on with, and the mark that has become from, nil if none has.
func (m mark) advance(look mark, oldest, end, confirmed uint64) (next mark, from *mark) {
	if m.Next == 0 {
		return look, nil
	}
	if m.Done == 0 && oldest >= m.Next {
		m.Done = end
	}
	if m.Done != 0 && confirmed >= m.Done {
		return look, &m
	}
	return m, nil
}
