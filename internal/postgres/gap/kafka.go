package gap

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kafka is what is known of the cluster that is published to: which one it is, and where the logs of its partitions
// ended with the last acknowledgement.
type Kafka struct {
	ID   string             // empty: not known, and taken for the last one
	Ends map[string][]int64 // by topic and partition, an offset; 0: nothing was acknowledged
	Lost []Lost
}

// Lost are records of a partition that were acknowledged and are no longer there.
type Lost struct {
	Topic     string
	Partition int32
	From, To  int64 // their offsets; To is after the last one
}

// Publisher is the process that publishes, as far as the account of gaps is concerned.
type Publisher interface {
	// Kafka returns what the process knows. One that publishes nothing yet begins with the last account.
	Kafka(last Kafka) Kafka
	// Kept is called once a gap over the losses is written down.
	Kept(lost []Lost)
}

// continues is for an account that begins again.
type continues struct{ last Kafka }

func (c continues) Kafka(Kafka) Kafka { return c.last }
func (continues) Kept([]Lost)         {}

// maxEnds is how many partitions' ends are remembered for the next process: each check with traffic writes them.
const maxEnds = 20_000

// bounded is nil for more ends than are remembered.
func bounded(ends map[string][]int64) map[string][]int64 {
	n := 0
	for _, of := range ends {
		n += len(of)
	}
	if n > maxEnds {
		return nil
	}
	return ends
}

// sameEnds reports whether nothing was acknowledged since.
func sameEnds(a, b map[string][]int64) bool { return maps.EqualFunc(a, b, slices.Equal) }

// lostRecords is the gap over records that Kafka has lost. Of a record that was acknowledged since the last check, the
// row is not before the account's from. Of an older record nothing shows where its row is.
func (s *seen) lostRecords() *Gap {
	g := s.gapFrom(KafkaLost, "")
	g.ToLSN, g.ToAt = s.LSN, &s.Now
	var parts []string
	for _, lost := range s.lost {
		parts = append(parts, fmt.Sprintf("offsets %d to %d of partition %d of topic %q", lost.From, lost.To-1,
			lost.Partition, lost.Topic))
		if of := s.Whole.Evidence.Ends[lost.Topic]; int(lost.Partition) >= len(of) || of[lost.Partition] == 0 ||
			lost.From < of[lost.Partition] {
			g.FromLSN, g.FromAt = "", nil
		}
	}
	g.What = "Kafka had acknowledged records that it no longer has: " + firstOf(parts, ", ")
	return g
}

// firstOf lists a few.
func firstOf(all []string, separator string) string {
	const shown = 3
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, separator)
}
