package lsn

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Position names one row of the log for good: the LSN of its transaction's commit record and the row's index among
// the rows of that transaction that are published, from 0.
//
// It is the only cursor that follows delivery order. A row's own LSN does not: with interleaved transactions, rows of
// the transaction that commits first can lie after rows of the transaction that commits later.
type Position struct {
	Commit LSN
	Index  uint32
}

const positionLen = 16 + 1 + 8

// Compare orders positions as the stream delivers them: -1, 0 or +1.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Commit, q.Commit); c != 0 {
		return c
	}
	return cmp.Compare(p.Index, q.Index)
}

// AppendText appends the position's text: the commit LSN as 16 and the index as 8 lower-case hexadecimal digits, with a
// hyphen between. The fixed width makes the text compare as Compare does. The error is always nil
// (encoding.TextAppender).
func (p Position) AppendText(b []byte) ([]byte, error) {
	var text [positionLen]byte
	putHex(text[:8], uint32(p.Commit>>32))
	putHex(text[8:16], uint32(p.Commit))
	text[16] = '-'
	putHex(text[17:], p.Index)
	return append(b, text[:]...), nil
}

// putHex writes eight hexadecimal digits, all at once: it spreads them over the bytes of a word and turns each into its
// character. Every row has three such numbers, and digit by digit they take a tenth of its record's time.
func putHex(to []byte, n uint32) {
	const ones = 0x0101_0101_0101_0101 // times a byte: that byte in each place
	x := uint64(n)
	x = (x | x<<16) & 0x0000_ffff_0000_ffff
	x = (x | x<<8) & 0x00ff_00ff_00ff_00ff
	x = (x | x<<4) & (0x0f * ones)
	letters := (x + 6*ones) >> 4 & ones // 1 in the place of each digit above 9
	binary.BigEndian.PutUint64(to, x+'0'*ones+letters*('a'-'9'-1))
}

// String returns the text AppendText appends.
func (p Position) String() string {
	b, _ := p.AppendText(make([]byte, 0, positionLen))
	return string(b)
}

// ParsePosition reads the text AppendText writes and nothing else: upper-case digits would compare differently as text.
func ParsePosition(s string) (Position, error) {
	if len(s) != positionLen || s[16] != '-' {
		return Position{}, positionError(s)
	}
	commit, ok := lowerHex(s[:16])
	if !ok {
		return Position{}, positionError(s)
	}
	index, ok := lowerHex(s[17:])
	if !ok {
		return Position{}, positionError(s)
	}
	return Position{Commit: LSN(commit), Index: uint32(index)}, nil
}

func positionError(s string) error {
	return fmt.Errorf("%q is not a position such as 0000000016b374d8-0000002a", s)
}

func lowerHex(s string) (n uint64, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			n = n<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
