// Package human writes numbers and times for people, everywhere in one spelling: terminals, logs' sentences, alerts,
// and the page, whose format.js follows the same list of examples (testdata/spelling.json). The texts are approximate;
// output for programs has the exact number.
package human

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes returns a number of bytes with a unit of 1024: "512 B", "1.5 GiB". It has three significant digits, and no
// digit after the point from 1,000 on.
func Bytes[T int64 | float64](bytes T) string {
	units := []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"}
	n, power := float64(bytes), 0
	for ; math.Abs(n) >= 1024 && power < len(units)-1; power++ {
		n /= 1024
	}
	return short(n) + units[power]
}

// Duration returns a duration in its two largest units: "45 s", "3 min 5 s", "1 h 2 min", "3 d 4 h". The rest is left
// off, not rounded up: of a threshold it must not be said that it is passed before it is.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Millisecond:
		return "0 s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + " s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, " min", time.Second, " s")
	case d < day:
		return twoUnits(d, time.Hour, " h", time.Minute, " min")
	}
	return twoUnits(d, day, " d", time.Hour, " h")
}

func twoUnits(d, large time.Duration, name string, small time.Duration, rest string) string {
	s := strconv.FormatInt(int64(d/large), 10) + name
	if n := d % large / small; n > 0 {
		s += " " + strconv.FormatInt(int64(n), 10) + rest
	}
	return s
}

// Seconds returns a measured time with three significant digits: "4.57 ms", "9.9 s". From 100 seconds on it is a
// Duration.
func Seconds(s float64) string {
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.001:
		return short(s*1e6) + " µs"
	case s < 1:
		return short(s*1000) + " ms"
	case s < 100:
		return short(s) + " s"
	}
	return Duration(time.Duration(min(s, 1e9) * float64(time.Second)))
}

// Time returns a moment, in UTC: "2026-01-02T03:05:06Z". People on call read it beside logs, which have the same form,
// and paste it into commands, which take it. It has no space at which a line could wrap.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Stamp is a Time with its milliseconds: for times in records and rows, which people compare.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Count returns a whole number with its thousands apart: "178,880".
func Count(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		digits, sign = digits[1:], "-"
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Counted is a number with its noun: "1 row", "2,000 rows".
func Counted[T int | int64 | uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(int64(n)) + " " + many
}

// short has three significant digits, and from 1,000 on none after the point.
func short(n float64) string {
	if math.Abs(n) >= 1000 {
		return Count(int64(math.Round(n)))
	}
	s := strconv.FormatFloat(n, 'g', 3, 64)
	if strings.Contains(s, "e") { // 999.6 is 1e+03, and below 1e-4 there is nothing to show
		if s = strconv.FormatFloat(math.Round(n), 'f', -1, 64); math.Abs(n) >= 999.5 {
			return Count(int64(math.Round(n)))
		}
	}
	return s
}
