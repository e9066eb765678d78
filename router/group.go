package router

// Group gathers reasons that call for the same policy. The groups are the keys below router.bad_rows; the reasons are
// many, and new reasons may be added.
type Group string

const (
	GroupUnroutable    Group = "unroutable"     // the row names no topic, or an illegal one
	GroupNullKey       Group = "null_key"       // the event id or the aggregate id is NULL
	GroupMissingColumn Group = "missing_column" // the table lacks a column: every row is bad until the table is fixed
	GroupTooLarge      Group = "too_large"      // larger than the topic takes: the fix is in Kafka, not in the row
	GroupUnconvertible Group = "unconvertible"  // a value is not of the form its column must have
	GroupUnknownSchema Group = "unknown_schema" // the schema registry does not know it: the fix is there
	// the payload is not a document of its schema: the fix is in the application, or in the schema
	GroupPayloadDoesNotFit Group = "payload_does_not_fit"
)

// groups holds every reason; a test compares it with Reasons.
var groups = map[Reason]Group{
	Unroutable:       GroupUnroutable,
	IllegalTopic:     GroupUnroutable,
	NoPartition:      GroupUnroutable,
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
	UnknownSchema:    GroupUnknownSchema,

	PayloadDoesNotFit: GroupPayloadDoesNotFit,
}

// Group is the reason's group.
func (r Reason) Group() Group { return groups[r] }

// Groups lists them all.
func Groups() []Group {
	return []Group{
		GroupUnroutable, GroupNullKey, GroupMissingColumn, GroupTooLarge, GroupUnconvertible, GroupUnknownSchema,
		GroupPayloadDoesNotFit,
	}
}
