package kafka

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestVerdicts is the error table a second time, by what happens: a change of one is meant to be made twice.
func TestVerdicts(t *testing.T) {
	want := map[action][]int16{
		done:    {0, 46},
		refresh: {3, 5, 6, 8, 9, 13, 41, 56, 57, 72, 74, 75, 100, 103},
		rewind:  {2, 7, 14, 15, 16, 19, 20, 51, 89},
		split:   {10, 18, 32, 87},
		bump:    {45, 59, 120},
		renew:   {47, 49},
		mute:    {17, 21, 29, 31, 35, 42, 43, 44, 53, 58, 76, -1, 4, 200},
		fenced:  {48, 90},
	}
	rows := 0
	for action, codes := range want {
		for _, code := range codes {
			v := verdictOf(code)
			require.Equal(t, action, v.action, "code %d", code)
			require.Equal(t, code, v.code)
			require.NotEmpty(t, v.name)
			require.Equal(t, action == done, v.trouble == "", "code %d: trouble is for what waits", code)
			if _, ok := verdicts[code]; ok {
				rows++
			}
			if err, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && code != 0 && code != 6 && verdicts[code].name != "" { // 6 has been renamed
				require.Equal(t, err.Message, v.name, "code %d", code)
			}
		}
	}
	require.Len(t, verdicts, rows, "every row is tested")
}

// TestVerdictsOnRetriable: whatever the protocol calls retriable is not left to a person.
func TestVerdictsOnRetriable(t *testing.T) {
	for code, v := range verdicts {
		if code != 0 && kafkago.Error(code).Temporary() {
			require.Contains(t, []action{rewind, refresh, split}, v.action, v.name)
		}
	}
}
