package check

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// age compares the topic's retention with the oldest row.
func (c *checker) age(subject, topic string, config map[string]string) {
	ms, err := strconv.ParseInt(config[wire.RetentionMs], 10, 64)
	if err != nil || ms < 0 || c.cfg.OldestRow.IsZero() || config[wire.TimestampType] == "LogAppendTime" ||
		!strings.Contains(config[wire.CleanupPolicy], "delete") {
		return
	}
	age := time.Since(c.cfg.OldestRow)
	if age.Milliseconds() < ms {
		return
	}
	found := fmt.Sprintf("It keeps records for %s, and the outbox has rows that are %s old.",
		human.Duration(time.Duration(ms)*time.Millisecond), human.Duration(age))
	if !c.cfg.KeepTimestamps {
		c.ok(subject, found+" The record of such a row gets the time at which it is sent, and a header with its own.")
		return
	}
	c.warn(subject, found, "With router.preset: debezium, records have the timestamps of their rows. Kafka deletes "+
		"the records of such old rows minutes after it has acknowledged them, in a snapshot, a replay, a repair or a "+
		"long backlog.",
		fault.Do("Let the broker set the timestamps of the topic.", c.cfg.Command("kafka-configs", fmt.Sprintf(
			"--alter --entity-type topics --entity-name %s --add-config %s=LogAppendTime", topic, wire.TimestampType))))
}
