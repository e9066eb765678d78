// Package nats publishes to one stream of NATS JetStream.
//
// Every message is a conditional publish: it names the sequence after which, and from the second on also the message
// after which, it is to be stored ("Nats-Expected-Last-Sequence", "Nats-Expected-Last-Msg-Id"; JetStream's headers are
// in its ADR-4 and ADR-22 and in the server's documentation, "Headers for publishing"). So many can be unanswered at
// once, and if one of them is not stored, none after it is: order needs no waiting. An earlier owner of the slot that
// still has messages in transit cannot put them between ours, because they name a predecessor that is not there.
//
// Each message also carries the position of its row. The last message in the stream therefore says how far all owners
// have come, however long ago that was, and a new one leaves out what is covered: exactly once without transactions,
// as long as the last message is kept.
//
// An answer that is missing, or that refuses a message, is followed by one question about the end of the stream (see
// settle): whatever is there counts as acknowledged, and the rest is sent again.
package nats
