package testkit

import (
	"context"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
)

// Kafka gives the test the one real broker that this process shares; topics need names of the test's own (Name).
func Kafka(t testing.TB) *kafka.Cluster {
	t.Helper()
	startsServer(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.kafka == nil {
		// The broker outlives the test that asks first, so it does not get that test's context.
		c, err := kafka.Start(context.Background(), kafka.Options{})
		if err != nil {
			t.Fatalf("testkit: %v", err)
		}
		shared.kafka = c
		shared.stops = append(shared.stops, c.Close)
	}
	return shared.kafka
}

// DedicatedKafka starts a cluster for this test alone.
func DedicatedKafka(t testing.TB, opts kafka.Options) *kafka.Cluster {
	t.Helper()
	startsServer(t)
	c, err := kafka.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range c.Brokers {
				t.Logf("the end of Kafka node %d's log:\n%s", b.Node, b.LogTail(10))
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("testkit: close Kafka: %v", err)
		}
	})
	return c
}

// FakeBroker starts an in-process broker for this test.
func FakeBroker(t testing.TB, opts fakebroker.Options) *fakebroker.Broker {
	t.Helper()
	b, err := fakebroker.Start(opts)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(b.Close)
	return b
}
