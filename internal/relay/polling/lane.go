package polling

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Lanes is how many there are. It is part of the index expression, so another number is another index, and two relays
// with different numbers would not exclude each other.
const Lanes = 64

// laneSQL is a row's lane as an expression. It has to stay the same over versions of Postgres and be IMMUTABLE for an
// index: the functions of hash indexes (hashtext) are promised neither, md5() fails if the server obeys FIPS
// 140, and convert_to() is only STABLE. So the text's bytes are got by decode(), with its one special character
// doubled, and hashed with SHA-256. A NULL counts as empty: such a row is a bad row, which has to be found.
func laneSQL(column string) string {
	return fmt.Sprintf(`(get_byte(sha256(decode(replace(coalesce(%s::text, ''), E'\\', E'\\\\'), 'escape')), 0) & %d)`,
		identifier.Quote(column), Lanes-1)
}

// laneOf is the same of a text in the server's encoding.
func laneOf(text []byte) int { return int(sha256.Sum256(text)[0] & (Lanes - 1)) }

// lockClass is the first half of the advisory locks of a table's lanes; the second is the lane. Locks are the
// database's, and shared with the application's, so it is a number that no application chooses by chance: a table's OID
// would be the number that others use, too.
func lockClass(t identifier.Table) int32 {
	sum := sha256.Sum256([]byte("cdc-outbox polling " + t.SQL()))
	return int32(binary.BigEndian.Uint32(sum[:4]))
}

// lanes knows, for one table, which lanes are in the hands of a worker of this process, and which are left alone for a
// while.
type lanes struct {
	mu      sync.Mutex
	taken   [Lanes]bool
	resting [Lanes]bool
}

// free lists the lanes to look at, beginning with first.
func (l *lanes) free(first int) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]int, 0, Lanes)
	for i := range Lanes {
		if n := (first + i) % Lanes; !l.taken[n] && !l.resting[n] {
			out = append(out, n)
		}
	}
	return out
}

// take returns the lanes that no worker of this process has, and they are the caller's now. A lock in the
// database does not say so: its holder here may have lost its connection, with records still in flight.
func (l *lanes) take(want []int) (got []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range want {
		if !l.taken[n] {
			l.taken[n] = true
			got = append(got, n)
		}
	}
	return got
}

func (l *lanes) give(back []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range back {
		l.taken[n] = false
	}
}

// has reports whether a worker of this process has the lane.
func (l *lanes) has(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[n]
}

// rest keeps a lane from being looked at, until wake.
func (l *lanes) rest(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting[n] = true
}

func (l *lanes) wake(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting[n] = false
}

// intArray writes numbers as an array literal.
func intArray[T int | int64](numbers []T) string {
	var b strings.Builder
	b.WriteString("'{")
	for i, n := range numbers {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, n)
	}
	b.WriteString("}'")
	return b.String()
}
