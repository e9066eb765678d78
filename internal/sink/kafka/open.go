package kafka

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// Open returns the function by which a source of rows opens its producer.
func Open(cfg Config) sink.Open {
	return func(c sink.Callbacks) (sink.Producer, error) {
		cfg.Callbacks = c
		p, err := New(cfg)
		if err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return p, nil
	}
}
