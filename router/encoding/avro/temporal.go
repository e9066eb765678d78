package avro

import "time"

// temporal is the number for the text of a date or time (RFC 3339), rounded down to the type's unit.
func (w *writer) temporal(n *node, s []byte) (int64, bool) {
	w.buf = w.buf[:0]
	switch n.logical {
	case date:
		w.buf = append(append(w.buf, s...), "T00:00:00Z"...)
	case timeOfDay:
		w.buf = append(append(append(w.buf, "1970-01-01T"...), s...), 'Z')
	case local:
		w.buf = append(append(w.buf, s...), 'Z')
	default:
		w.buf = append(w.buf, s...)
	}
	var t time.Time
	if t.UnmarshalText(w.buf) != nil {
		return 0, false
	}
	const day = 24 * 60 * 60
	switch {
	case n.logical == date:
		return t.Unix() / day, true // whole days
	case n.unit == int64(time.Millisecond):
		return t.UnixMilli(), true
	case n.unit == int64(time.Microsecond):
		return t.UnixMicro(), true
	}
	nanos := t.UnixNano()
	return nanos, time.Unix(0, nanos).Equal(t)
}
