package pgtype

import (
	"bytes"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
)

// span is an interval's fields, each with its own sign.
type span struct {
	years, months, days, hours, minutes int64
	wholeSeconds, micros                int64
}

// seconds is the result of the JDBC driver's PGInterval.getSeconds.
func (s span) seconds() float64 { return float64(s.wholeSeconds) + float64(s.micros)/1e6 }

// interval is a number of microseconds, with months of 365.25/12 days, or ISO 8601 text.
func (o Options) interval(int32) *Converter {
	if o.Interval == "string" {
		return &Converter{
			Schema: logical(connect.String, "io.debezium.time.Interval"),
			Convert: func(b []byte) (connect.Value, error) {
				s, err := parseInterval(b)
				return connect.Text(s.appendISO(nil)), err
			},
		}
	}
	return &Converter{
		Schema: logical(connect.Int64, "io.debezium.time.MicroDuration"),
		Convert: func(b []byte) (connect.Value, error) {
			s, err := parseInterval(b)
			return connect.Int(s.durationMicros()), err
		},
	}
}

// durationMicros computes in doubles, step by step as MicroDuration does, so that the same digits are lost.
func (s span) durationMicros() int64 {
	const daysPerMonth = 365.25 / 12.0
	days := float64(float64(s.years*12+s.months)*daysPerMonth) + float64(s.days)
	hours := float64(days*24) + float64(s.hours)
	minutes := float64(hours*60) + float64(s.minutes)
	seconds := float64(minutes*60) + s.seconds()
	return int64(float64(seconds * 1e6))
}

func (s span) appendISO(dst []byte) []byte {
	for _, part := range []struct {
		before string
		n      int64
		after  byte
	}{{"P", s.years, 'Y'}, {"", s.months, 'M'}, {"", s.days, 'D'}, {"T", s.hours, 'H'}, {"", s.minutes, 'M'}} {
		dst = strconv.AppendInt(append(dst, part.before...), part.n, 10)
		dst = append(dst, part.after)
	}
	// BigDecimal.valueOf, stripTrailingZeros, toPlainString: at most nine digits after the point.
	text := strconv.AppendFloat(nil, s.seconds(), 'f', -1, 64)
	if d, ok := java.ParseDecimal(text); ok {
		text = d.StripTrailingZeros().AppendPlain(nil)
	}
	return append(append(dst, text...), 'S')
}

// parseInterval reads the style postgres: "1 year 2 mons -3 days +04:05:06.789".
func parseInterval(b []byte) (span, error) {
	var s span
	fields := bytes.Fields(b)
	for len(fields) > 0 {
		if bytes.IndexByte(fields[0], ':') >= 0 {
			if len(fields) > 1 {
				return s, errMalformed
			}
			return s, s.clock(fields[0])
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 32)
		if err != nil || len(fields) < 2 {
			return s, errMalformed
		}
		switch string(fields[1]) {
		case "year", "years":
			s.years = n
		case "mon", "mons":
			s.months = n
		case "day", "days":
			s.days = n
		default:
			return s, errMalformed
		}
		fields = fields[2:]
	}
	if len(b) == 0 {
		return s, errMalformed
	}
	return s, nil
}

func (s *span) clock(b []byte) error {
	r := reader{rest: b}
	sign := int64(1)
	if r.accept('-') {
		sign = -1
	} else {
		r.accept('+')
	}
	s.hours = sign * r.number(2, 10)
	r.expect(':')
	s.minutes = sign * r.number(2, 2)
	r.expect(':')
	s.wholeSeconds = sign * r.number(2, 2)
	s.micros = sign * r.fraction()
	if r.bad || len(r.rest) > 0 {
		return errMalformed
	}
	return nil
}
