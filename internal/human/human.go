// Package human writes numbers for people. The texts are approximate; what a program reads has the exact number.
package human

import (
	"fmt"
	"math"
	"time"
)

// Bytes returns a number of bytes with four significant digits and a unit of 1024: "512B", "1.5GiB".
func Bytes(n float64) string {
	prefixes := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	power := 0
	for ; n >= 1024 && power < len(prefixes)-1; power++ {
		n /= 1024
	}
	return fmt.Sprintf("%.4g%sB", n, prefixes[power])
}

// Duration returns a duration in the one unit that suits it: "12 seconds", "About an hour", "3 weeks".
func Duration(d time.Duration) string {
	const day = 24
	hours := int(math.Round(d.Hours()))
	switch {
	case d < time.Second:
		return "Less than a second"
	case d < 2*time.Second:
		return "1 second"
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", d/time.Second)
	case d < 2*time.Minute:
		return "About a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	case hours == 1:
		return "About an hour"
	case hours < 2*day:
		return fmt.Sprintf("%d hours", hours)
	case hours < 14*day:
		return fmt.Sprintf("%d days", hours/day)
	case hours < 60*day:
		return fmt.Sprintf("%d weeks", hours/(7*day))
	case hours < 2*365*day:
		return fmt.Sprintf("%d months", hours/(30*day))
	default:
		return fmt.Sprintf("%d years", int(d.Hours())/(365*day))
	}
}
