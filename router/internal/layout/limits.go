package layout

// MaxLayouts bounds the cache. A table's layout replaces its older one, so only partitions that come and go
// (without publish_via_partition_root each has an OID of its own) can ever reach it.
const MaxLayouts = 1024

// MaxKeptBuffer is the largest decoding buffer kept from row to row, so that one huge row does not hold its
// memory for ever.
const MaxKeptBuffer = 1 << 20

// MaxTopics bounds the cache of names: a template with ${aggregate_id} may make any number of them.
const MaxTopics = 10_000
