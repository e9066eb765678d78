package sink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// What is stored with a position is what is read, the transaction at the position included.
func TestStoredPositionsAreReadAsTheyWereWritten(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)
	s := Stored{
		Position: Position{
			Timeline: 3, Position: lsn.Position{Commit: 0x16B3748, Index: 7}, XID: 741, Time: at,
		},
		SystemID: "1", Instance: "other",
		Mark: Mark{Timeline: 3, Writes: 9, Position: 0x16B3700, Published: 0x16B36FF, At: at},
	}
	read, err := ParseStored(s.Text(5))
	require.NoError(t, err)
	require.Equal(t, s, read)
	s.Position.XID, s.Time, s.Mark = 0, time.Time{}, Mark{}
	read, err = ParseStored(s.Text(5))
	require.NoError(t, err)
	require.Equal(t, s, read)
}

// Earlier versions stored no transaction: such a position is read, and has none to be compared.
func TestStoredPositionsOfEarlierVersionsAreRead(t *testing.T) {
	s, err := ParseStored(
		`{"system":"1","timeline":1,"commit":"00000000016b3748","index":2,"instance":"a","transaction":4}`)
	require.NoError(t, err)
	require.Equal(t, Stored{
		Position: Position{Timeline: 1, Position: lsn.Position{Commit: 0x16B3748, Index: 2}},
		SystemID: "1", Instance: "a",
	}, s)
}
