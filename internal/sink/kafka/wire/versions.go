package wire

import (
	"fmt"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// versionRange is the range of versions that a broker offers of one API.
type versionRange struct{ lowest, highest int16 }

// need is an API that nothing works without, from the version that has what we use of it.
type need struct {
	key   protocol.ApiKey
	since int16
	kafka string // the release that brought it
}

// needs: idempotent Produce requests (KIP-98), SASL in frames of the protocol (KIP-152).
var needs = []need{
	{protocol.Metadata, 1, "0.10"},
	{protocol.Produce, 3, "0.11"},
	{protocol.InitProducerId, 0, "0.11"},
}

var saslNeeds = []need{
	{protocol.SaslHandshake, 1, "1.0"},
	{protocol.SaslAuthenticate, 0, "1.0"},
}

// transactionNeeds: the offset before an unfinished commit must not be returned as the present one (KIP-447).
var transactionNeeds = []need{
	{protocol.AddPartitionsToTxn, 0, "0.11"},
	{protocol.AddOffsetsToTxn, 0, "0.11"},
	{protocol.TxnOffsetCommit, 0, "0.11"},
	{protocol.EndTxn, 0, "0.11"},
	{protocol.OffsetFetch, offsetFetchVersion, "2.5"},
}

// require rejects a broker with which nothing can work, before something fails in a way that says less.
func (w *Conn) require(c *Cluster) error {
	if err := w.speaks(needs, ""); err != nil {
		return err
	}
	if c.SASL != nil {
		if err := w.speaks(saslNeeds, " for SASL"); err != nil {
			return err
		}
	}
	if c.Transactional {
		return w.speaks(transactionNeeds, " for delivery: exactly_once")
	}
	return nil
}

func (w *Conn) speaks(all []need, what string) error {
	for _, n := range all {
		have, offered := w.offered[n.key]
		ours := max(n.since, n.key.MaxVersion())
		switch {
		case !offered || have.highest < n.since:
			return &DialError{
				sink.Rejected,
				fmt.Errorf("the broker at %s is too old: it does not speak version %d of %s", w.Addr, n.since, n.key),
				fmt.Sprintf("Kafka %s or newer is needed%s.", n.kafka, what), "",
			}
		case have.lowest > ours:
			return &DialError{
				sink.Rejected,
				fmt.Errorf("the broker at %s is too new: it speaks %s from version %d on, this program up to %d",
					w.Addr, n.key, have.lowest, ours),
				"Use a newer version of cdc-outbox.", "",
			}
		}
	}
	return nil
}
