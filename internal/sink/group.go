package sink

import "context"

// GroupReader is a Reader whose broker remembers how far its consumers are.
type GroupReader interface {
	// Groups lists how far groups of consumers are in the spans, by name and topic: a group that has confirmed nothing
	// of a topic is left out. So is a group that the user may not see.
	Groups(ctx context.Context, spans []Span) ([]Group, error)
}

// Group is how far a group of consumers is in a topic.
type Group struct {
	Name  string
	Topic string
	// Lag is the number of offsets from the group to the end of the spans. Records of a transaction's end have
	// offsets, too. A partition of which the group has confirmed nothing counts from its beginning.
	Lag int64
}
