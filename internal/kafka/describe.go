package kafka

import (
	"strconv"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// describe asks for max.message.bytes of the topics in the answer whose limit is not known. Who may not read the
// configuration of a topic (DESCRIBE_CONFIGS) gets no limit, and batches are split when the broker refuses one.
func (p *Producer) describe(w *wire.Conn, answer *metadata.Response) (map[string]int, error) {
	var resources []describeconfigs.RequestResource
	var topics []*topic
	p.mu.Lock()
	for i := range answer.Topics {
		at := &answer.Topics[i]
		if t := p.topics[at.Name]; t != nil && !t.described && at.ErrorCode == 0 {
			t.described = true // once, also where it is not allowed
			topics = append(topics, t)
			resources = append(resources, describeconfigs.RequestResource{
				ResourceType: wire.ResourceTopic, ResourceName: at.Name, ConfigNames: []string{wire.MaxMessageBytes},
			})
		}
	}
	p.mu.Unlock()
	if len(resources) == 0 {
		return nil, nil
	}
	if _, err := w.Version(protocol.DescribeConfigs); err != nil {
		return nil, nil // a broker without the API has no limits to tell
	}
	res, err := w.RoundTrip(&describeconfigs.Request{Resources: resources}, p.control.timeout)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, t := range topics {
			t.described = false
		}
		return nil, err
	}
	limits := map[string]int{}
	for _, r := range res.(*describeconfigs.Response).Resources {
		for _, entry := range r.ConfigEntries {
			if n, err := strconv.Atoi(entry.ConfigValue); err == nil && entry.ConfigName == wire.MaxMessageBytes {
				limits[r.ResourceName] = n
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		t.max, t.describedAt = limits[t.name], time.Now()
	}
	return limits, nil
}
