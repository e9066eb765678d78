package reader

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Retention implements sink.Reader. It needs DESCRIBE_CONFIGS.
func (r *Reader) Retention(ctx context.Context, topic string) (sink.Retention, error) {
	config, err := r.Config(ctx, topic, wire.CleanupPolicy, wire.RetentionMs, wire.RetentionBytes)
	keeps := retentionOf(config)
	keeps.Object, keeps.Partition = "topic "+topic, true
	set := func(setting string) string {
		return r.cluster.Command("kafka-configs",
			fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config %s", topic, setting))
	}
	keeps.KeepAge, keeps.KeepBytes = set(wire.RetentionMs+"=-1"), set(wire.RetentionBytes+"=-1")
	keeps.KeepKeys = set(wire.CleanupPolicy + "=delete")
	return keeps, err
}

// Removed implements sink.Reader. A log that does not begin at its first offset has lost its beginning to retention or
// to DeleteRecords, and does not say when. The first record that is left and was written in its turn is later than all
// that was removed. If there is none, everything may have been removed just now, whatever the topic's retention is.
func (r *Reader) Removed(ctx context.Context, s sink.Span) (before time.Time, err error) {
	err = r.retry(ctx, fmt.Sprintf("topic %s, partition %d", s.Topic, s.Partition), func() (err error) {
		if s.From, err = r.offset(ctx, s, earliest); err == nil {
			s.End, err = r.offset(ctx, s, latest)
		}
		return err
	})
	if err != nil || s.From == 0 {
		return before, err
	}
	for m, err := range r.Messages(ctx, s) {
		if err != nil {
			return before, err
		}
		if router.OutOfTurn(m.Headers) {
			continue
		}
		return time.UnixMilli(m.Timestamp), nil
	}
	return time.Now(), nil
}

// forever is beyond the life of a topic, and can be counted in nanoseconds.
const forever = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

func retentionOf(config map[string]string) (keeps sink.Retention) {
	policy := config[wire.CleanupPolicy]
	keeps.Compacted = strings.Contains(policy, "compact")
	if !strings.Contains(policy, "delete") {
		return keeps
	}
	if ms, err := strconv.ParseInt(config[wire.RetentionMs], 10, 64); err == nil && ms >= 0 && ms < forever {
		keeps.Age = max(time.Duration(ms)*time.Millisecond, 1)
	}
	if size, err := strconv.ParseInt(config[wire.RetentionBytes], 10, 64); err == nil && size >= 0 {
		keeps.Bytes = max(size, 1)
	}
	return keeps
}
