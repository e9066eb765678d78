package router

// Group gathers reasons for which somebody would choose the same policy: five keys of the configuration, where the
// reasons are many and new ones may come. It is the key below router.bad_rows.
type Group string

const (
	GroupUnroutable    Group = "unroutable"     // the row names no topic, or an illegal one
	GroupNullKey       Group = "null_key"       // the event id or the aggregate id is NULL
	GroupMissingColumn Group = "missing_column" // the table lacks a column: every row of it is bad, until it is mended
	GroupTooLarge      Group = "too_large"      // larger than the topic takes: mended in Kafka, not in the row
	GroupUnconvertible Group = "unconvertible"  // a value is not what its column has to hold
)

// groups holds every reason; a test compares it with Reasons.
var groups = map[Reason]Group{
	Unroutable:       GroupUnroutable,
	IllegalTopic:     GroupUnroutable,
	NullID:           GroupNullKey,
	NullKey:          GroupNullKey,
	MissingColumn:    GroupMissingColumn,
	TooLarge:         GroupTooLarge,
	MalformedRow:     GroupUnconvertible,
	UnchangedValue:   GroupUnconvertible,
	BinaryValue:      GroupUnconvertible,
	BadBytea:         GroupUnconvertible,
	BadTimestamp:     GroupUnconvertible,
	BadHeaders:       GroupUnconvertible,
	ReservedHeader:   GroupUnconvertible,
	HeadersTooLarge:  GroupUnconvertible,
	InvalidRecord:    GroupUnconvertible,
	BadValue:         GroupUnconvertible,
	BadMessage:       GroupUnconvertible,
	NotTransactional: GroupUnconvertible,
}

// Group is the reason's group.
func (r Reason) Group() Group { return groups[r] }

// Groups lists them all.
func Groups() []Group {
	return []Group{GroupUnroutable, GroupNullKey, GroupMissingColumn, GroupTooLarge, GroupUnconvertible}
}
