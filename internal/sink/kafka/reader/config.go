package reader

import (
	"context"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// Compacted reports whether Kafka keeps only the last record of each key of the topic, so that what is absent may well
// have been there. known is false where the user may not read the topic's configuration (DESCRIBE_CONFIGS).
func (r *Reader) Compacted(ctx context.Context, topic string) (compacted, known bool, err error) {
	config, err := r.Config(ctx, topic, wire.CleanupPolicy)
	policy, known := config[wire.CleanupPolicy]
	return strings.Contains(policy, "compact"), known, err
}

// Config returns settings of the topic, the brokers' defaults included. A setting that the user may not read is absent.
func (r *Reader) Config(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	config := map[string]string{}
	err := r.retry(ctx, "topic "+topic, func() error {
		w, err := r.any(ctx)
		if err != nil {
			return err
		}
		if _, err := w.Version(protocol.DescribeConfigs); err != nil {
			return nil //nolint:nilerr // a broker without the API has nothing to tell
		}
		res, err := r.ask(ctx, w, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
			{ResourceType: wire.ResourceTopic, ResourceName: topic, ConfigNames: names},
		}})
		if err != nil {
			return err
		}
		for _, answer := range res.(*describeconfigs.Response).Resources {
			for _, entry := range answer.ConfigEntries {
				config[entry.ConfigName] = entry.ConfigValue
			}
		}
		return nil
	})
	return config, err
}
