package kafka

import (
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// describedFor is how long the limits of a topic are taken for true. An operator may change them meanwhile, a shorter
// retention above all. A producer that may not read them asks seldom: brokers log each refusal.
const (
	describedFor   = 5 * time.Minute
	undescribedFor = time.Hour
)

// described are the settings that describe asks for.
var described = append([]string{wire.MaxMessageBytes}, wire.TimestampSettings...)

// describe asks for the limits of the topics in the answer that are not known, or were asked for a while ago. Without
// the right to read the configuration of a topic (DESCRIBE_CONFIGS) there are none, and batches are split when the
// broker refuses one.
func (p *Producer) describe(w *wire.Conn, answer *metadata.Response) (map[string]int, error) {
	var resources []describeconfigs.RequestResource
	var topics []*topic
	now := time.Now()
	p.mu.Lock()
	for i := range answer.Topics {
		at := &answer.Topics[i]
		if t := p.topics[at.Name]; t != nil && (!t.described || now.After(t.describeAt)) && at.ErrorCode == 0 {
			t.described, t.describeAt = true, now.Add(undescribedFor) // also where it is not allowed
			topics = append(topics, t)
			resources = append(resources, describeconfigs.RequestResource{
				ResourceType: wire.ResourceTopic, ResourceName: at.Name, ConfigNames: described,
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
	known, settings := map[string]shifts{}, map[string]string{}
	for _, r := range res.(*describeconfigs.Response).Resources {
		if r.ErrorCode != 0 {
			continue
		}
		config := map[string]string{}
		for _, entry := range r.ConfigEntries {
			config[entry.ConfigName] = entry.ConfigValue
		}
		known[r.ResourceName], settings[r.ResourceName] = shiftsOf(config), fmt.Sprint(config)
		if n, err := strconv.Atoi(config[wire.MaxMessageBytes]); err == nil {
			limits[r.ResourceName] = n
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		t.max, t.settings, t.describedAt = limits[t.name], settings[t.name], time.Now()
		if s, ok := known[t.name]; ok {
			t.shifts, t.describeAt = s, now.Add(describedFor)
		} else {
			t.shifts = unknownShifts
		}
		t.look()
	}
	return limits, nil
}
