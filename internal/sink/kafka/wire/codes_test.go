package wire

import (
	"errors"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestVerdicts is the error table a second time, by what happens: a change of one is meant to be made twice.
func TestVerdicts(t *testing.T) {
	want := map[Action][]int16{
		Done:    {0, 46},
		Refresh: {3, 5, 6, 8, 9, 13, 41, 56, 57, 72, 74, 75, 100, 103},
		Rewind:  {2, 7, 14, 15, 16, 19, 20, 51, 89},
		Split:   {10, 18, 32, 87},
		Bump:    {45, 59, 120},
		Renew:   {47, 49},
		Mute:    {17, 21, 29, 31, 35, 42, 43, 44, 50, 53, 58, 76, -1, 4, 200},
		Fenced:  {48, 90},
	}
	rows := 0
	for action, codes := range want {
		for _, code := range codes {
			v := VerdictOf(code)
			require.Equal(t, action, v.Action, "code %d", code)
			require.Equal(t, code, v.Code)
			require.NotEmpty(t, v.Name)
			require.Equal(t, action == Done, v.Trouble == "", "code %d: trouble is for what waits", code)
			if _, ok := Verdicts[code]; ok {
				rows++
			}
			// 6 has been renamed
			var err *kerr.Error
			if errors.As(kerr.ErrorForCode(code), &err) && code != 0 && code != 6 && Verdicts[code].Name != "" {
				require.Equal(t, err.Message, v.Name, "code %d", code)
			}
		}
	}
	require.Len(t, Verdicts, rows, "every row is tested")
}

// TestVerdictsOnRetriable: whatever the protocol calls retriable is not left to a person.
func TestVerdictsOnRetriable(t *testing.T) {
	for code, v := range Verdicts {
		if code != 0 && kafkago.Error(code).Temporary() {
			require.Contains(t, []Action{Rewind, Refresh, Split}, v.Action, v.Name)
		}
	}
}
