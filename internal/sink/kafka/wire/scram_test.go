package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIterations: a broker that says how often to hash a password is believed up to a limit.
//
// Bug (producer): The number of a broker's SCRAM challenge was believed. Cost: a core was busy for hours,
// and SIGTERM did not end the process.
func TestIterations(t *testing.T) {
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		s := &SASL{Mechanism: mechanism, Username: "u", Password: func() (string, error) { return "p", nil }}
		for count, accepted := range map[string]bool{
			"4096": true, "16384": true,
			"1000001": false, "2000000000": false, "99999999999999999999": false, "0": false, "-1": false,
		} {
			first, next, err := Login{s}.Start(t.Context(), "b")
			require.NoError(t, err)
			_, nonce, _ := strings.Cut(string(first), "r=")
			_, _, err = next(fmt.Appendf(nil, "r=%sx,s=c2FsdA==,i=%s", nonce, count))
			if accepted {
				require.NoError(t, err, count)
			} else {
				require.ErrorContains(t, err, "iterations of SCRAM", count)
			}
		}
	}
}
