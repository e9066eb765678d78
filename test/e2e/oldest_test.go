//go:build e2e

package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
)

// The same core on the oldest Kafka that is supported.
func TestClusterOfTheOldestVersion(t *testing.T) {
	t.Parallel()
	if v := os.Getenv(kafka.EnvVersion); v != "" {
		t.Skipf("everything runs on Kafka %s", v)
	}
	c := threeBrokers(t, kafka.Options{Version: "3.9"})
	t.Run("leader killed", func(t *testing.T) { leaderKilled(t, c, soak(10, 1)) })
	t.Run("exactly once, killed", func(t *testing.T) {
		exactlyOnceKilled(t, surroundings{kafka: c, replicas: 3}, soak(20, 3))
	})
	if soak(1, 0) == 1 {
		t.Run("leader bounced", func(t *testing.T) { leaderBounced(t, c, 5) })
		t.Run("leader frozen", func(t *testing.T) { leaderFrozen(t, c, 30*time.Second) })
	}
}
