package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSCRAMRefusesCharacters: a name or a password that cannot be prepared is not in the error.
//
// Bug (configuration): The error of a password that SCRAM cannot prepare quotes name and password. Cost: a secret's
// file with two lines put the password into the log at each connect.
func TestSCRAMRefusesCharacters(t *testing.T) {
	const canary = "hunter2canary"
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for _, login := range [][2]string{{"relay", canary + "\nsecond line"}, {canary + "\x07", "password"}} {
			s := &SASL{
				Mechanism: mechanism, Username: login[0], Password: func() (string, error) { return login[1], nil },
			}
			_, err := s.mechanism(t.Context())
			require.ErrorContains(t, err, "does not allow")
			require.NotContains(t, err.Error(), canary)
			_, _, err = Login{s}.Start(t.Context(), "b")
			require.Error(t, err)
			require.NotContains(t, err.Error(), canary)
		}
	}
}
