package layout

// Parsed is the outcome of parsing a timestamp's text.
type Parsed uint8

const (
	parsedOK      Parsed = iota
	parsedNoTime         // infinity, BC or before 1970: a time Kafka cannot hold
	parsedInvalid        // no timestamp as Postgres prints it with DateStyle ISO
)

// ParseTimestamp reads Postgres' text of a timestamp or timestamptz with DateStyle ISO (docs 8.5.2), such as
// "2026-11-21 08:17:00.123456+00", and returns milliseconds since 1970 UTC, rounded down. Without an offset, as
// `timestamp` has none, the time counts as UTC. It allocates nothing.
func ParseTimestamp(s []byte) (int64, Parsed) {
	if ms, ok := parseUsual(s); ok {
		return ms, parsedOK
	}
	return parseAny(s)
}

// usual is the form in nearly every row: six digits of microseconds, and a session in UTC.
const usual = "YYYY-MM-DD hh:mm:ss.uuuuuu+00"

// parseUsual reads the usual form of a valid time from 1970 on. The digits are at fixed places, so that it takes less
// than half of the time of parseAny.
func parseUsual(s []byte) (ms int64, ok bool) {
	if len(s) != len(usual) || !punctuated(s) {
		return 0, false
	}
	bad := byte(0)
	two := func(i int) int {
		a, b := s[i]-'0', s[i+1]-'0'
		if a > 9 || b > 9 {
			bad = 1
		}
		return int(a)*10 + int(b)
	}
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	millis, rest := two(20)*10, two(22) // the third digit of the fraction is the last of a millisecond
	millis += rest / 10
	two(24)
	if bad != 0 || year < 1970 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month, false) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	return (daysSince1970(year, month, day)*86400+int64(hour*3600+minute*60+second))*1000 + int64(millis), true
}

// punctuated reports whether all of a text as long as usual that is not a digit of the time is as it is there.
func punctuated(s []byte) bool {
	return s[4] == '-' && s[7] == '-' && s[10] == ' ' && s[13] == ':' && s[16] == ':' && s[19] == '.' &&
		s[26] == '+' && s[27] == '0' && s[28] == '0'
}

func parseAny(s []byte) (int64, Parsed) {
	switch string(s) {
	case "infinity", "-infinity":
		return 0, parsedNoTime
	}
	p := timeParser{rest: s}
	year := p.number(4, 6)
	p.expect('-')
	month := p.number(2, 2)
	p.expect('-')
	day := p.number(2, 2)
	p.expect(' ')
	hour := p.number(2, 2)
	p.expect(':')
	minute := p.number(2, 2)
	p.expect(':')
	second := p.number(2, 2)
	millis := p.fraction()
	offset := p.offset()
	bc := p.suffix(" BC")
	if p.bad || len(p.rest) > 0 || year == 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month, bc) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, parsedInvalid
	}
	if bc {
		return 0, parsedNoTime
	}
	seconds := daysSince1970(year, month, day)*86400 + int64(hour*3600+minute*60+second-offset)
	ms := seconds*1000 + int64(millis)
	if ms < 0 {
		return 0, parsedNoTime
	}
	return ms, parsedOK
}

// timeParser reads from the front of rest. The first thing that does not fit makes it bad for good.
type timeParser struct {
	rest []byte
	bad  bool
}

func (p *timeParser) number(atLeast, atMost int) int {
	n, i := 0, 0
	for i < len(p.rest) && i < atMost && IsDigit(p.rest[i]) {
		n = n*10 + int(p.rest[i]-'0')
		i++
	}
	if i < atLeast {
		p.bad = true
	}
	p.rest = p.rest[i:]
	return n
}

func (p *timeParser) expect(c byte) {
	if !p.accept(c) {
		p.bad = true
	}
}

func (p *timeParser) accept(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// fraction reads up to six digits after a point and returns whole milliseconds.
func (p *timeParser) fraction() int {
	if !p.accept('.') {
		return 0
	}
	millis, i := 0, 0
	for ; i < len(p.rest) && i < 6 && IsDigit(p.rest[i]); i++ {
		if i < 3 {
			millis = millis*10 + int(p.rest[i]-'0')
		}
	}
	if i == 0 {
		p.bad = true
	}
	p.rest = p.rest[i:]
	for ; i < 3; i++ {
		millis *= 10
	}
	return millis
}

// offset reads +HH, +HH:MM or +HH:MM:SS and returns seconds east of UTC.
func (p *timeParser) offset() int {
	sign := 1
	switch {
	case p.accept('+'):
	case p.accept('-'):
		sign = -1
	default:
		return 0
	}
	seconds := p.number(2, 2) * 3600
	for unit := 60; unit > 0 && p.accept(':'); unit /= 60 {
		n := p.number(2, 2)
		if n > 59 {
			p.bad = true
		}
		seconds += n * unit
	}
	if seconds >= 24*3600 {
		p.bad = true
	}
	return sign * seconds
}

func (p *timeParser) suffix(s string) bool {
	if string(p.rest) != s {
		return false
	}
	p.rest = nil
	return true
}

// IsDigit reports whether c is an ASCII digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// daysIn returns the days of a month. 1 BC is the year 0, so a BC year is a leap year one later than its number.
func daysIn(year, month int, bc bool) int {
	if bc {
		year--
	}
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts days in the proleptic Gregorian calendar, which Postgres uses for all dates. The year starts
// in March here, so that the leap day comes last; 719468 is 1970-01-01 counted from 0000-03-01.
func daysSince1970(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	y := int64(year)
	return y*365 + y/4 - y/100 + y/400 + int64((153*(month-3)+2)/5) + int64(day) - 1 - 719468
}
