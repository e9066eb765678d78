//go:build e2e

package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// worst maps subjects to the worst level found.
func worst(findings []preflight.Finding) map[string]preflight.Level {
	rank := map[preflight.Level]int{preflight.OK: 1, preflight.Warn: 2, preflight.Fail: 3}
	out := map[string]preflight.Level{}
	for _, f := range findings {
		if rank[f.Level] > rank[out[f.Subject]] {
			out[f.Subject] = f.Level
		}
	}
	return out
}

// TestRealCheckTransactions: a real coordinator looks at the rights before it looks for the producer, and leaves the
// instance at work alone.
func TestRealCheckTransactions(t *testing.T) {
	const positions = "cdc-outbox.positions"
	c := saslKafka(t, "t")
	cfg := check.Options{Cluster: wire.Cluster{Brokers: c.Addrs(), Transactional: true}}
	cfg.SASL = &wire.SASL{
		Mechanism: "PLAIN", Username: "user",
		Password: func() (string, error) { return "right", nil },
	}
	look := func(bad ...string) {
		t.Helper()
		findings, err := check.Transactions(t.Context(), cfg, owner.ID)
		require.NoError(t, err)
		var fails []string
		for subject, level := range worst(findings) {
			if level == preflight.Fail {
				fails = append(fails, subject)
			} else {
				require.Equal(t, preflight.OK, level, "%+v", findings)
			}
		}
		require.ElementsMatch(t, bad, fails, "%+v", findings)
	}
	look("transactional id "+owner.ID, "topic "+positions)
	allow(t, c, onTransactionalID(owner.ID), kadm.OpWrite, kadm.OpDescribe)
	look("group "+owner.ID, "topic "+positions)
	allow(t, c, onGroup(owner.ID), kadm.OpRead)
	look("topic " + positions)
	allow(t, c, onTopics(positions), kadm.OpRead, kadm.OpDescribe, kadm.OpCreate)
	look()
	allow(t, c, onTopics("t"), kadm.OpWrite, kadm.OpDescribe)

	r := newRigAt(t, c.Addrs(), func(cc *Config) { cc.SASL, cc.Transactions = cfg.SASL, &Transactions{Instance: "a"} })
	r.begin()
	epoch := r.id.epoch
	for range 5 {
		r.transact(3, "t")
		look()
	}
	r.drain()
	r.checkAcks()
	require.Equal(t, epoch, r.id.epoch)
}
