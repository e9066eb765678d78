package oracle

import (
	"fmt"
	"strings"
)

// Kind of finding.
type Kind string

// The kinds of finding. None of them is allowed at any time; duplicates and rewinds are only counted.
const (
	Lost      Kind = "lost"      // N: a committed row is not in Kafka
	Phantom   Kind = "phantom"   // P: a record without a committed row
	Inverted  Kind = "inverted"  // O: first appearances of a key's rows against commit order
	Shuffled  Kind = "shuffled"  // O: a partition's first appearances against commit order, across keys
	Stale     Kind = "stale"     // O: a repeat that is not a contiguous rewind
	Corrupted Kind = "corrupted" // key, value or position differ
	Misplaced Kind = "misplaced" // wrong topic, or not the partition the Java client would choose
	Overtaken Kind = "overtaken" // S: the slot passed a row that was not in Kafka yet
	Fallen    Kind = "fallen"    // M: the slot's position fell, or was nothing
	Incorrect Kind = "incorrect" // the oracle contradicts itself: a bug of the harness, or of Postgres
)

// examples is how many findings of a kind are kept in words.
const examples = 3

// Report is what Check, CheckSlot and the truth's own check found.
type Report struct {
	Rows       int // committed
	Records    int // in Kafka
	Duplicates int // records beyond a row's first
	Rewinds    int // steps back within partitions
	Samples    int // of the slot
	Found      map[Kind]int
	Examples   []string
}

func (r *Report) add(k Kind, format string, args ...any) {
	if r.Found == nil {
		r.Found = map[Kind]int{}
	}
	r.Found[k]++
	if r.Found[k] <= examples {
		r.Examples = append(r.Examples, string(k)+": "+fmt.Sprintf(format, args...))
	}
}

// Err is nil when nothing was found; duplicates are not findings.
func (r *Report) Err() error {
	if len(r.Found) == 0 {
		return nil
	}
	return fmt.Errorf("%s\n  %s", r, strings.Join(r.Examples, "\n  "))
}

// String is one line with all figures.
func (r *Report) String() string {
	s := fmt.Sprintf("%d rows, %d records, %d duplicates in %d rewinds, %d slot samples", r.Rows, r.Records,
		r.Duplicates, r.Rewinds, r.Samples)
	for _, k := range []Kind{
		Lost, Phantom, Inverted, Shuffled, Stale, Corrupted, Misplaced, Overtaken, Fallen, Incorrect,
	} {
		if r.Found[k] > 0 {
			s += fmt.Sprintf(", %d %s", r.Found[k], k)
		}
	}
	return s
}

func (r *Report) merge(other *Report) {
	for k, n := range other.Found {
		if r.Found == nil {
			r.Found = map[Kind]int{}
		}
		r.Found[k] += n
	}
	r.Examples = append(r.Examples, other.Examples...)
}
