package fault

import (
	"fmt"
	"time"
)

// Duration writes a duration for people, in its two largest units: "45 s", "3 min 5 s", "1 h 2 min", "3 d 4 h". What is
// less than that is left off, not rounded up: of a threshold it must not be said that it is passed before it is.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return units(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return units(d, time.Hour, "h", time.Minute, "min")
	}
	return units(d, day, "d", time.Hour, "h")
}

func units(d, large time.Duration, name string, small time.Duration, rest string) string {
	s := fmt.Sprintf("%d %s", d/large, name)
	if n := d % large / small; n > 0 {
		s += fmt.Sprintf(" %d %s", n, rest)
	}
	return s
}
