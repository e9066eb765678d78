// Package lanes keeps the order of keys for brokers whose clients send without order, or acknowledge out of order.
//
// The records of a key belong to one of many lanes, and a lane has at most one batch that is not settled. So a record
// that the broker refuses is sent again before any later record of its key has been sent at all: first appearances
// follow the order of the commits, and a repeat begins where the lane was. A failure stops its lane alone, which
// repeats with growing pauses for as long as the session lasts.
//
// A batch may hold more than one record only if the broker takes a prefix of it, in order. If it can take the second
// record and not the first, batches have one record, and the throughput comes from the number of lanes.
//
// A record without a key has no predecessor. Such records go to the lanes in turn.
//
// State is the pure part: values in, values out. Queue is the part that sources and senders call.
package lanes
