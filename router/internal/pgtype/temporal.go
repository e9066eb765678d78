package pgtype

import (
	"errors"
	"math"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// Debezium's values for infinity: dates and times that its JDBC driver reserves, in the units of the column.
const (
	infinityDays, minusInfinityDays     = -2147472692, -2147472691 // both overflow the same way
	infinityMicros, minusInfinityMicros = 9223372036825200000, -9223372036832400000
)

var (
	errInfinity = errors.New("infinity has no counterpart in the configured time_precision")
	errRange    = errors.New("the time lies beyond what the configured time_precision can hold")
)

// precision is the number of digits of a second's fraction that the type keeps.
func precision(modifier int32) int {
	if modifier < 0 {
		return 6
	}
	return int(modifier)
}

func logical(t connect.Type, name string) *connect.Schema {
	return &connect.Schema{Type: t, Name: name, Version: 1}
}

func infinity(b []byte) (sign int) {
	switch string(b) {
	case "infinity":
		return 1
	case "-infinity":
		return -1
	}
	return 0
}

func (o Options) date(int32) *Converter {
	read := func(b []byte) (int64, error) {
		t, err := parseDate(b)
		return t.days, err
	}
	switch o.Time {
	case "isostring":
		return &Converter{
			Schema: logical(connect.String, "io.debezium.time.IsoDate"),
			Convert: func(b []byte) (connect.Value, error) {
				if infinity(b) != 0 {
					return connect.Value{}, errInfinity
				}
				days, err := read(b)
				return connect.Text(append(appendDate(nil, days), 'Z')), err
			},
		}
	case "connect":
		return &Converter{
			Schema: logical(connect.Int32, "org.apache.kafka.connect.data.Date"),
			Convert: func(b []byte) (connect.Value, error) {
				if infinity(b) != 0 {
					return connect.Value{}, errInfinity
				}
				days, err := read(b)
				return javaDate(days, days*86400000), err
			},
		}
	}
	return &Converter{
		Schema: logical(connect.Int32, "io.debezium.time.Date"), Convert: func(b []byte) (connect.Value, error) {
			switch infinity(b) {
			case 1:
				return connect.Int(infinityDays), nil
			case -1:
				return connect.Int(minusInfinityDays), nil
			}
			days, err := read(b)
			return connect.Int(days), err
		},
	}
}

func (o Options) time(modifier int32) *Converter {
	unit := int64(1)
	s := logical(connect.Int64, "io.debezium.time.MicroTime")
	switch {
	case o.Time == "isostring":
		return &Converter{
			Schema: logical(connect.String, "io.debezium.time.IsoTime"),
			Convert: func(b []byte) (connect.Value, error) {
				micros, err := parseClock(b)
				return connect.Text(append(appendClock(nil, micros, 0), 'Z')), err
			},
		}
	case o.Time == "connect":
		return &Converter{
			Schema: logical(connect.Int32, "org.apache.kafka.connect.data.Time"),
			Convert: func(b []byte) (connect.Value, error) {
				micros, err := parseClock(b)
				return javaDate(micros/1000, micros/1000), err
			},
		}
	case o.Time == "nanoseconds":
		return &Converter{
			Schema: logical(connect.Int64, "io.debezium.time.NanoTime"),
			Convert: func(b []byte) (connect.Value, error) {
				micros, err := parseClock(b)
				return connect.Int(micros * 1000), err
			},
		}
	case o.Time == "adaptive" && precision(modifier) <= 3:
		unit = 1000
		s = logical(connect.Int32, "io.debezium.time.Time")
	}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		micros, err := parseClock(b)
		return connect.Int(micros / unit), err
	}}
}

func (o Options) timestamp(modifier int32) *Converter {
	unit := int64(1)
	s := logical(connect.Int64, "io.debezium.time.MicroTimestamp")
	switch {
	case o.Time == "isostring":
		return &Converter{
			Schema: logical(connect.String, "io.debezium.time.IsoTimestamp"),
			Convert: func(b []byte) (connect.Value, error) {
				if infinity(b) != 0 {
					return connect.Value{}, errInfinity
				}
				t, err := parseMoment(b, false)
				return connect.Text(t.appendISO(nil, 0)), err
			},
		}
	case o.Time == "connect":
		return &Converter{
			Schema: logical(connect.Int64, "org.apache.kafka.connect.data.Timestamp"),
			Convert: func(b []byte) (connect.Value, error) {
				if infinity(b) != 0 {
					return connect.Value{}, errInfinity
				}
				t, err := parseMoment(b, false)
				millis := t.days*86400000 + t.micros/1000
				return javaDate(millis, millis), err
			},
		}
	case o.Time == "nanoseconds":
		return &Converter{Schema: logical(connect.Int64, "io.debezium.time.NanoTimestamp"), Convert: nanoTimestamp}
	case o.Time != "microseconds" && precision(modifier) <= 3:
		unit = 1000
		s = logical(connect.Int64, "io.debezium.time.Timestamp")
	}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		switch infinity(b) {
		case 1:
			return connect.Int(floorDiv(infinityMicros, unit)), nil
		case -1:
			return connect.Int(floorDiv(minusInfinityMicros, unit)), nil
		}
		t, err := parseMoment(b, false)
		if err != nil {
			return connect.Value{}, err
		}
		micros, ok := t.unixMicros()
		if !ok {
			return connect.Value{}, errRange
		}
		return connect.Int(floorDiv(micros, unit)), nil
	}}
}

func nanoTimestamp(b []byte) (connect.Value, error) {
	switch infinity(b) {
	case 1:
		return connect.Int(math.MaxInt64), nil
	case -1:
		return connect.Int(math.MinInt64), nil
	}
	t, err := parseMoment(b, false)
	if err != nil {
		return connect.Value{}, err
	}
	micros, ok := t.unixMicros()
	if !ok || micros > math.MaxInt64/1000 || micros < math.MinInt64/1000 {
		return connect.Value{}, errRange
	}
	return connect.Int(micros * 1000), nil
}

// timestamptz is ISO text at UTC with as many digits after the point as the type keeps, whatever the mode.
func (o Options) timestamptz(modifier int32) *Converter {
	width := precision(modifier)
	return &Converter{
		Schema: logical(connect.String, "io.debezium.time.ZonedTimestamp"),
		Convert: func(b []byte) (connect.Value, error) {
			if infinity(b) != 0 {
				return connect.Text(b), nil
			}
			t, err := parseMoment(b, true)
			return connect.Text(t.appendISO(nil, width)), err
		},
	}
}

func timetz(Options, int32) *Converter {
	return &Converter{
		Schema: logical(connect.String, "io.debezium.time.ZonedTime"), Convert: func(b []byte) (connect.Value, error) {
			r := reader{rest: b}
			micros := r.clock()
			t, err := r.assemble(1970, 1, 1, micros, r.offset())
			return connect.Text(append(appendClock(nil, t.micros, 0), 'Z')), err
		},
	}
}

// appendISO writes DateTimeFormatter.ISO_OFFSET_DATE_TIME at UTC; see appendClock for width.
func (t moment) appendISO(dst []byte, width int) []byte {
	dst = append(appendDate(dst, t.days), 'T')
	return append(appendClock(dst, t.micros, width), 'Z')
}

// appendDate writes years of more than four digits with their sign, and years before the year 0 with a minus.
func appendDate(dst []byte, days int64) []byte {
	y, m, d := civil(days)
	switch {
	case y > 9999:
		dst = append(dst, '+')
	case y < 0:
		dst = append(dst, '-')
		y = -y
	}
	dst = append(appendPadded(dst, y, 4), '-')
	dst = append(appendPadded(dst, m, 2), '-')
	return appendPadded(dst, d, 2)
}

// appendClock writes HH:MM:SS and a fraction of width digits; for 0 as many as are needed, or none.
func appendClock(dst []byte, micros int64, width int) []byte {
	seconds := micros / 1e6
	dst = append(appendPadded(dst, seconds/3600, 2), ':')
	dst = append(appendPadded(dst, seconds/60%60, 2), ':')
	dst = appendPadded(dst, seconds%60, 2)
	fraction := micros % 1e6
	if width == 0 && fraction == 0 {
		return dst
	}
	digits := appendPadded(make([]byte, 0, 8), fraction, 6)
	if width == 0 {
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
	} else {
		digits = digits[:min(width, 6)]
	}
	return append(append(dst, '.'), digits...)
}

func appendPadded(dst []byte, n int64, width int) []byte {
	text := strconv.AppendInt(make([]byte, 0, 20), n, 10)
	for i := len(text); i < width; i++ {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// javaDate makes a java.util.Date. In headers Connect prints a time for a value before 1970-01-02, a date for a
// midnight, and otherwise both, in the JVM's time zone; here that is UTC.
func javaDate(number, millis int64) connect.Value {
	const perDay = 86400000
	days := floorDiv(millis, perDay)
	clock := appendClock(nil, (millis-days*perDay)*1000, 3)
	var text []byte
	switch {
	case millis < perDay:
		text = append(clock, 'Z')
	case millis%perDay == 0:
		text = appendJavaDay(nil, days)
	default:
		text = append(append(append(appendJavaDay(nil, days), 'T'), clock...), 'Z')
	}
	return connect.Value{Kind: connect.KindDate, Int: number, Data: text}
}

// appendJavaDay writes yyyy-MM-dd as SimpleDateFormat does, which knows no sign for years.
func appendJavaDay(dst []byte, days int64) []byte {
	y, m, d := civil(days)
	dst = append(appendPadded(dst, y, 4), '-')
	dst = append(appendPadded(dst, m, 2), '-')
	return appendPadded(dst, d, 2)
}
