package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrincipal: a name that is in a token is not known here, and a command with an empty one would be refused.
//
// Bug (configuration): A command for an operator named the principal `User:` with nothing after it, where a token says
// who logs in. Cost: a command of no use.
func TestPrincipal(t *testing.T) {
	for want, sasl := range map[string]*SASL{
		"User:relay ": {Mechanism: "PLAIN", Username: "relay"}, "User:NAME ": {Mechanism: OAuthBearer},
	} {
		c := &Cluster{Brokers: []string{"b:1"}, SASL: sasl}
		require.Contains(t, c.AllowWrite("t").Commands[0], want)
	}
	require.Contains(t, (&Cluster{Brokers: []string{"b:1"}}).AllowWrite("t").Commands[0], "User:NAME ")
}
