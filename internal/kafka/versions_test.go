package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// TestOldBrokers: what is missing is named with the release that has it, instead of failing somewhere later.
func TestOldBrokers(t *testing.T) {
	sasl := &SASL{Mechanism: "PLAIN", Username: "u", Password: func() (string, error) { return "p", nil }}
	for name, test := range map[string]struct {
		broker *kversion.Versions
		change func(*Config)
		remedy string // empty: new enough
	}{
		"0.10":                  {kversion.V0_10_2(), func(*Config) {}, "Kafka 0.11 or newer is needed."},
		"0.11":                  {kversion.V0_11_0(), func(*Config) {}, ""},
		"0.11 with SASL":        {kversion.V0_11_0(), func(c *Config) { c.SASL = sasl }, "Kafka 1.0 or newer is needed for SASL."},
		"1.0 with SASL":         {kversion.V1_0_0(), func(c *Config) { c.SASL = sasl }, ""},
		"2.4 with transactions": {kversion.V2_4_0(), func(c *Config) { c.Transactions = &Transactions{} }, "Kafka 2.5 or newer is needed for delivery: exactly_once."},
		"2.5 with transactions": {kversion.V2_5_0(), func(c *Config) { c.Transactions = &Transactions{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts := []kfake.Opt{kfake.MaxVersions(test.broker)}
			cfg := Config{}
			test.change(&cfg)
			if cfg.SASL != nil {
				opts = append(opts, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
			}
			c := newCluster(t, opts...)
			cfg.Brokers = c.ListenAddrs()
			cfg.setDefaults()
			w, err := dial(t.Context(), &cfg, cfg.Brokers[0])
			if test.remedy == "" {
				require.NoError(t, err)
				require.NoError(t, w.nc.Close())
				return
			}
			var de *dialError
			require.ErrorAs(t, err, &de)
			require.Equal(t, Rejected, de.kind)
			require.Equal(t, test.remedy, de.remedy)
			require.ErrorContains(t, err, "too old: it does not speak version")

			findings, err := Check(t.Context(), cfg, nil)
			require.NoError(t, err)
			require.Len(t, findings, 1)
			require.Equal(t, preflight.Fail, findings[0].Level)
			require.Equal(t, test.remedy, findings[0].Remedy)
		})
	}
}
