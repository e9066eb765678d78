package fault_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 0: "0 ms", 999_999_999: "999 ms", time.Second: "1 s",
		59*time.Second + 999*time.Millisecond: "59 s", time.Minute: "1 min", 65 * time.Second: "1 min 5 s",
		time.Hour - 1: "59 min 59 s", time.Hour: "1 h", time.Hour + 59*time.Second: "1 h",
		time.Hour + 2*time.Minute + 3*time.Second + 4: "1 h 2 min", day - 1: "23 h 59 min", day: "1 d",
		day + 59*time.Minute: "1 d", 3*day + 4*time.Hour + 5*time.Minute: "3 d 4 h", 1e9 * time.Second: "11574 d 1 h",
	} {
		require.Equal(t, want, fault.Duration(d), d.String())
	}
}
