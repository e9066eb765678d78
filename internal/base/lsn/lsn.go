// Package lsn holds the type for positions in the write-ahead log, and the type for the position of a row.
package lsn

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the write-ahead log. 0 means no position.
type LSN uint64

// String returns the form Postgres prints: two hexadecimal numbers with a slash between them.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l))
}

// Parse reads the form Postgres prints and nothing else: no signs, no blanks, no trailing text.
func Parse(s string) (LSN, error) {
	hi, lo, ok := strings.Cut(s, "/")
	if !ok || len(hi) == 0 || len(lo) == 0 || len(hi) > 8 || len(lo) > 8 {
		return 0, fmt.Errorf("%q is not an LSN such as 16/B374D848", s)
	}
	h, err := strconv.ParseUint(hi, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an LSN such as 16/B374D848", s)
	}
	l, err := strconv.ParseUint(lo, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an LSN such as 16/B374D848", s)
	}
	return LSN(h<<32 | l), nil
}
