package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestCheckIDExpiration: ids that are forgotten earlier than run relies on.
//
// Bug (producer): A transactional.id.expiration.ms of less than 20 hours, which voids the protection against an
// instance that was suspended, was not looked at. Cost: none known.
func TestCheckIDExpiration(t *testing.T) {
	for value, want := range map[string]preflight.Level{
		"604800000": "", "72000000": "", "71999999": preflight.Warn, "60000": preflight.Warn,
	} {
		c := fakeCluster(t, kfake.BrokerConfigs(map[string]string{wire.IDExpiration: value}))
		found, err := Fencing(t.Context(), Options{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}}, "id")
		require.NoError(t, err)
		require.Equal(t, want, levels(found)[wire.IDExpiration], value)
	}
}

// TestCheckTransactionTimeout: brokers that allow less than run asks for are found, by their setting, or by the request
// itself if the user may not read the setting. No request carries the slot's own transactional id.
//
// Bug (producer): `check` looked at the right to the transactional id and at no setting, and code 50 had neither name
// nor remedy. Cost: with a low transaction.max.timeout.ms, check was green and run waited for ever on "ERROR_50".
func TestCheckTransactionTimeout(t *testing.T) {
	const id = "cdc-outbox.7.slot"
	for name, test := range map[string]struct {
		most    string
		hidden  bool
		fencing preflight.Level
		exactly preflight.Level
	}{
		"enough":               {"60000", false, "", ""},
		"for one":              {"20000", false, "", preflight.Fail},
		"for none":             {"5000", false, preflight.Fail, preflight.Fail},
		"not readable, enough": {"60000", true, "", ""},
		"not readable":         {"20000", true, "", preflight.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeCluster(t, kfake.BrokerConfigs(map[string]string{wire.MaxTransactionTimeout: test.most}))
			if test.hidden {
				c.ControlKey(kmsg.DescribeConfigs.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					return req.ResponseKind(), nil, true
				})
			}
			c.ControlKey(kmsg.InitProducerID.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if own := req.(*kmsg.InitProducerIDRequest).TransactionalID; own != nil {
					require.NotEqual(t, id, *own)
				}
				return nil, nil, false
			})
			o := Options{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}}
			fencing, err := Fencing(t.Context(), o, id)
			require.NoError(t, err)
			require.Equal(t, test.fencing, levels(fencing)[wire.MaxTransactionTimeout])
			exactly, err := Transactions(t.Context(), o, id)
			require.NoError(t, err)
			require.Equal(t, test.exactly, levels(exactly)[wire.MaxTransactionTimeout])
			for _, f := range append(fencing, exactly...) {
				if f.Subject == wire.MaxTransactionTimeout {
					require.Contains(t, f.Remedy, "Set transaction.max.timeout.ms to ")
				}
			}
		})
	}
}
