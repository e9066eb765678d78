//go:build e2e

package e2e

import (
	"os"
	"time"
)

// envSoak asks for the full counts and durations (make soak); without it each fault is tried a few times, so that make
// e2e stays a matter of minutes.
const envSoak = "CDC_OUTBOX_TEST_SOAK"

// soak is the full count when it is asked for, otherwise the small one. Figures of speed too: without it they only
// catch a collapse, because the machine is shared and the binary is slowed down by the race detector.
func soak[T int | float64 | time.Duration](full, small T) T {
	if os.Getenv(envSoak) != "" {
		return full
	}
	return small
}
