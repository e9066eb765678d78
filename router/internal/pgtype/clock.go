package pgtype

import "math"

// moment is a date and time of day as Postgres prints them with DateStyle ISO, at UTC.
type moment struct {
	days   int64 // since 1970-01-01, proleptic Gregorian calendar
	micros int64 // of the day
}

// reader reads from the front of rest. The first thing that does not fit makes it bad for good.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number(atLeast, atMost int) int64 {
	n, i := int64(0), 0
	for i < len(r.rest) && i < atMost && r.rest[i] >= '0' && r.rest[i] <= '9' {
		n = n*10 + int64(r.rest[i]-'0')
		i++
	}
	r.bad = r.bad || i < atLeast
	r.rest = r.rest[i:]
	return n
}

func (r *reader) accept(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *reader) expect(c byte) { r.bad = !r.accept(c) || r.bad }

// era reads the end of a date, which is " BC" for the years before 1.
func (r *reader) era() (bc bool) {
	if string(r.rest) == " BC" {
		r.rest = nil
		return true
	}
	r.bad = r.bad || len(r.rest) > 0
	return false
}

// date reads year, month and day.
func (r *reader) date() (year, month, day int64) {
	year = r.number(4, 7)
	r.expect('-')
	month = r.number(2, 2)
	r.expect('-')
	day = r.number(2, 2)
	r.bad = r.bad || year == 0 || month < 1 || month > 12 || day < 1 || day > 31
	return year, month, day
}

// clock reads a time of day in microseconds. 24:00:00 is one for Postgres.
func (r *reader) clock() int64 {
	hour := r.number(2, 2)
	r.expect(':')
	minute := r.number(2, 2)
	r.expect(':')
	second := r.number(2, 2)
	micros := (hour*3600+minute*60+second)*1e6 + r.fraction()
	r.bad = r.bad || minute > 59 || second > 59 || micros > 86400*1e6
	return micros
}

// fraction reads up to six digits after a point as microseconds.
func (r *reader) fraction() int64 {
	if !r.accept('.') {
		return 0
	}
	before := len(r.rest)
	n := r.number(1, 6)
	for digits := before - len(r.rest); digits < 6; digits++ {
		n *= 10
	}
	return n
}

// offset reads +HH, +HH:MM or +HH:MM:SS in seconds east of UTC.
func (r *reader) offset() int64 {
	sign := int64(1)
	if r.accept('-') {
		sign = -1
	} else {
		r.expect('+')
	}
	seconds := r.number(2, 2) * 3600
	for unit := int64(60); unit > 0 && r.accept(':'); unit /= 60 {
		seconds += r.number(2, 2) * unit
	}
	return sign * seconds
}

func parseDate(b []byte) (moment, error) {
	r := reader{rest: b}
	y, m, d := r.date()
	return r.assemble(y, m, d, 0, 0)
}

func parseClock(b []byte) (int64, error) {
	r := reader{rest: b}
	n := r.clock()
	if r.bad || len(r.rest) > 0 {
		return 0, errMalformed
	}
	return n, nil
}

func parseMoment(b []byte, zoned bool) (moment, error) {
	r := reader{rest: b}
	y, m, d := r.date()
	r.expect(' ')
	micros, offset := r.clock(), int64(0)
	if zoned {
		offset = r.offset()
	}
	return r.assemble(y, m, d, micros, offset)
}

// assemble reads the era and puts the parts together. 1 BC is the year 0.
func (r *reader) assemble(year, month, day, micros, offset int64) (moment, error) {
	if r.era() {
		year = 1 - year
	}
	if r.bad {
		return moment{}, errMalformed
	}
	t := moment{days: daysSince1970(year, month, day), micros: micros - offset*1e6}
	const perDay int64 = 86400 * 1e6
	for t.micros < 0 {
		t.micros += perDay
		t.days--
	}
	for t.micros >= perDay {
		t.micros -= perDay
		t.days++
	}
	return t, nil
}

// unixMicros is false if the sum does not fit: Postgres counts from 2000, and so reaches some years further.
func (t moment) unixMicros() (int64, bool) {
	const perDay int64 = 86400 * 1e6
	if t.days >= math.MaxInt64/perDay || t.days <= math.MinInt64/perDay {
		return 0, false
	}
	return t.days*perDay + t.micros, true
}

// daysSince1970 counts with years that start in March, so that the leap day comes last (Hinnant, days_from_civil).
func daysSince1970(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yearOfEra := y - era*400
	dayOfYear := (153*((m+9)%12)+2)/5 + d - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// civil is the inverse of daysSince1970.
func civil(days int64) (y, m, d int64) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	y = yearOfEra + era*400
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	mp := (5*dayOfYear + 2) / 153
	d = dayOfYear - (153*mp+2)/5 + 1
	if m = mp + 3; m > 12 {
		m -= 12
		y++
	}
	return y, m, d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
