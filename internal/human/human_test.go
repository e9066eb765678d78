package human

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 1 << 20: "1MiB", 1<<20 - 1: "1024KiB",
		1234567890: "1.15GiB", 5 << 40: "5TiB", 1 << 60: "1EiB", 1 << 62: "4EiB", 0.5: "0.5B",
	} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "Less than a second", 0: "Less than a second", 999 * time.Millisecond: "Less than a second",
		time.Second: "1 second", 59 * time.Second: "59 seconds", time.Minute: "About a minute",
		119 * time.Second: "About a minute", 2 * time.Minute: "2 minutes",
		59*time.Minute + 59*time.Second: "59 minutes", time.Hour: "About an hour",
		89 * time.Minute: "About an hour", 90 * time.Minute: "2 hours", 47 * time.Hour: "47 hours", 2 * day: "2 days",
		13 * day: "13 days", 14 * day: "2 weeks", 59 * day: "8 weeks", 60 * day: "2 months", 729 * day: "24 months",
		730 * day: "2 years", 1095 * day: "3 years",
	} {
		require.Equal(t, want, Duration(d), d)
	}
}
