package kafka

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// metadata is the JSON that is committed with a transaction. The number makes it unlike any other.
func (x *transactions) metadata(pos sink.Position) string {
	return sink.Stored{
		Position: pos, SystemID: x.owner.SystemID, Instance: x.cfg.Instance, Mark: x.mark,
	}.Text(x.count)
}

// notAPosition: something else commits offsets for the group. To go on would be to repeat, or to skip, at random.
func notAPosition(cluster *wire.Cluster, group, topic string, err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: groupObject(group, topic),
		Err: fmt.Errorf("the offset's metadata is not a position: %w", err),
		Next: "Find out which other program commits offsets for this group and stop it, then delete the offsets. " +
			"Records since the slot's position are then sent again.",
		Commands: []string{cluster.Command("kafka-consumer-groups",
			"--delete-offsets --group "+group+" --topic "+topic)},
	}
}

// groupObject names where a position is kept.
func groupObject(group, topic string) string { return fmt.Sprintf("group %q, topic %q", group, topic) }
