package letterbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Retention returns findings if the topic may delete open letters. A user who may not read the topic's
// configuration (DESCRIBE_CONFIGS) gets no findings.
func (b *Box) Retention(ctx context.Context) ([]preflight.Finding, error) {
	if b.file != nil {
		return nil, nil
	}
	config, err := b.reader.Config(ctx, b.Topic, wire.CleanupPolicy, wire.RetentionMs, wire.RetentionBytes)
	if err != nil {
		return nil, err
	}
	return judge(b.Topic, config, b.Ledger.Entries(), time.Now(), func(setting string) string {
		return b.cluster.Command("kafka-configs",
			fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config %s", b.Topic, setting))
	}), nil
}

// judge compares the oldest open letter with the topic's configuration. Kafka deletes a segment when its newest record
// is older than the retention, so never a letter before its time, and often later. A warning that comes at half the
// time leaves the other half to act.
func judge(
	topic string, config map[string]string, entries []*deadletter.Entry, now time.Time, set func(setting string) string,
) []preflight.Finding {
	var oldest time.Time
	open := int64(0)
	for _, e := range entries {
		if !e.IsOpen() {
			continue
		}
		if open++; oldest.IsZero() || e.Written.Before(oldest) {
			oldest = e.Written
		}
	}
	if open == 0 {
		return nil
	}
	var found []preflight.Finding
	warn := func(what, why string, remedy fault.Remedy) {
		f := preflight.Finding{Level: preflight.Warn, Subject: "topic " + topic, Found: what, Why: why}
		found = append(found, f.With(remedy))
	}
	letters := human.Counted(open, "open dead letter", "open dead letters")
	policy := config[wire.CleanupPolicy]
	if strings.Contains(policy, "compact") {
		warn("It is compacted, and holds "+letters+".", "Of letters with one key Kafka keeps only the last.",
			fault.Do("Let it delete by age alone.", set(wire.CleanupPolicy+"=delete")))
	}
	if !strings.Contains(policy, "delete") {
		return found
	}
	export := "cdc-outbox dead-letter export --in " + topic + " --open --to " + topic + ".jsonl"
	ms, err := strconv.ParseInt(config[wire.RetentionMs], 10, 64)
	age := now.Sub(oldest)
	if keeps := time.Duration(min(ms, forever)) * time.Millisecond; err == nil && ms >= 0 && age >= keeps/2 {
		when := "In " + human.Duration(max(keeps-age, time.Second)) + " Kafka begins to delete them."
		if age >= keeps {
			when = "Kafka may delete them at any time."
		}
		warn(fmt.Sprintf("It keeps records for %s, and the oldest of %s is %s old.", human.Duration(keeps), letters,
			human.Duration(age)), when+" A deleted letter can be neither shown nor retried.",
			fault.Do("Keep the letters until they are decided, or in a file as well.",
				set(wire.RetentionMs+"=-1"), export))
	}
	if size, err := strconv.ParseInt(config[wire.RetentionBytes], 10, 64); err == nil && size >= 0 {
		warn(fmt.Sprintf("It keeps at most about %s of a partition, and holds %s.", human.Bytes(size), letters),
			"Kafka deletes the oldest letters when there are too many.",
			fault.Do("Keep the letters until they are decided, or in a file as well.",
				set(wire.RetentionBytes+"=-1"), export))
	}
	return found
}

const forever = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
