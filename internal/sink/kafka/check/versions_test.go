package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestOldBrokers: what is missing is named with the release that has it, instead of failing somewhere later.
func TestOldBrokers(t *testing.T) {
	sasl := &wire.SASL{Mechanism: "PLAIN", Username: "u", Password: func() (string, error) { return "p", nil }}
	for name, test := range map[string]struct {
		broker *kversion.Versions
		change func(*wire.Cluster)
		remedy string // empty: new enough
	}{
		"0.10": {kversion.V0_10_2(), func(*wire.Cluster) {}, "Kafka 0.11 or newer is needed."},
		"0.11": {kversion.V0_11_0(), func(*wire.Cluster) {}, ""},
		"0.11 with SASL": {
			kversion.V0_11_0(), func(c *wire.Cluster) { c.SASL = sasl },
			"Kafka 1.0 or newer is needed for SASL.",
		},
		"1.0 with SASL": {kversion.V1_0_0(), func(c *wire.Cluster) { c.SASL = sasl }, ""},
		"2.4 with transactions": {
			kversion.V2_4_0(), func(c *wire.Cluster) { c.Transactional = true },
			"Kafka 2.5 or newer is needed for delivery: exactly_once.",
		},
		"2.5 with transactions": {kversion.V2_5_0(), func(c *wire.Cluster) { c.Transactional = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts := []kfake.Opt{kfake.MaxVersions(test.broker)}
			cfg := wire.Cluster{}
			test.change(&cfg)
			if cfg.SASL != nil {
				opts = append(opts, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
			}
			c := fakeCluster(t, opts...)
			cfg.Brokers = c.ListenAddrs()
			cfg.SetDefaults()
			w, err := wire.Dial(t.Context(), &cfg, cfg.Brokers[0])
			if test.remedy == "" {
				require.NoError(t, err)
				require.NoError(t, w.Close())
				return
			}
			var de *wire.DialError
			require.ErrorAs(t, err, &de)
			require.Equal(t, sink.Rejected, de.Kind)
			require.Equal(t, test.remedy, de.Remedy)
			require.ErrorContains(t, err, "too old: it does not speak version")

			findings, err := Cluster(t.Context(), Options{Cluster: cfg}, nil)
			require.ErrorIs(t, err, ErrNoBroker)
			require.Len(t, findings, 1)
			require.Equal(t, preflight.Fail, findings[0].Level)
			require.Equal(t, test.remedy, findings[0].Remedy)
		})
	}
}
