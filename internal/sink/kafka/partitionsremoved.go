package kafka

import (
	"fmt"
	"slices"
	"time"
)

// A topic can be deleted and made again with fewer partitions. Records that wait for a partition that no longer exists
// are given up with the session, and produced again to the partition that their key has now.

// fewerAnswers is how many answers in a row, over pace.slow at least, must name fewer partitions. A broker that has not
// heard of added partitions yet answers the same, and to believe it would be to send records twice, in two partitions.
// Every fifth answer is another broker's (planMetadata).
const fewerAnswers = 11

// shrink takes an answer that names fewer partitions than are in use.
func (p *Producer) shrink(t *topic, n int) {
	for _, part := range t.partitions[n:] {
		p.lead(part, nil, part.leaderEpoch)
		part.reportGone(&p.troubles, n)
	}
	if t.fewerSeen == 0 {
		t.fewerAt = time.Now()
	}
	if t.fewerSeen++; t.fewerSeen < fewerAnswers || time.Since(t.fewerAt) < p.cfg.pace.slow {
		return
	}
	t.fewer = n
	if slices.ContainsFunc(t.partitions, (*partition).holds) {
		p.giveUp(fmt.Sprintf("topic %q", t.name),
			fmt.Sprintf("it was made again with %d partitions instead of %d", n, len(t.partitions)))
		return
	}
	t.shrinkToFewer()
	p.announce()
}

// holds reports whether the partition has records that were not handed to Acked.
func (part *partition) holds() bool { return part.busy() || len(part.held) > 0 }

// shrinkToFewer forgets the partitions that no longer exist. They are empty.
func (t *topic) shrinkToFewer() {
	if t.fewer == 0 {
		return
	}
	t.partitions = slices.Clip(t.partitions[:t.fewer])
	t.fewer, t.fewerSeen = 0, 0
}
