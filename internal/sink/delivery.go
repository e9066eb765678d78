package sink

import "time"

// Delivery lists the records of one batch that are in the log.
type Delivery struct {
	Topic     string
	Partition int32
	Tickets   []uint64 // one per record, in the order of ProduceAt; valid during the call
	Bytes     int64    // sum of Record.Size() over the batch

	Tags       []Tag // of the records that have one; valid during the call
	BaseOffset int64 // of the batch's first record, -1 if the broker did not say
}

// Tag is the Tag of a record, which is number Record of its batch, from 0.
type Tag struct {
	Record int32
	Tag    any
}

// Dropped counts the records that Abandon gave up.
type Dropped struct {
	Records int
	Bytes   int64 // sum of Record.Size(), to be given back to the window
}

// Growth is a topic that has got partitions while the producer used it. No record is written before an older one of its
// key, but keys go to other partitions from then on, and a group that is behind handles them in any order.
type Growth struct {
	Topic       string
	Before, Now int // its partitions
	At          time.Time
	Next        string // the next step
	Commands    []string
}
