package avro

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

type temporal struct {
	of      kind
	logical logical
	unit    time.Duration
}

var temporals = map[string]temporal{
	"date":                   {integer, date, 0},
	"time-millis":            {integer, timeOfDay, time.Millisecond},
	"time-micros":            {long, timeOfDay, time.Microsecond},
	"timestamp-millis":       {long, instant, time.Millisecond},
	"timestamp-micros":       {long, instant, time.Microsecond},
	"timestamp-nanos":        {long, instant, time.Nanosecond},
	"local-timestamp-millis": {long, local, time.Millisecond},
	"local-timestamp-micros": {long, local, time.Microsecond},
	"local-timestamp-nanos":  {long, local, time.Nanosecond},
}

// setLogical takes over a logical type. One that is not known, or is not valid for the type, means nothing
// (specification, "Logical Types").
func (n *node) setLogical(v map[string]any) {
	name, _ := v["logicalType"].(string)
	if t, ok := temporals[name]; ok && t.of == n.kind {
		n.logical, n.unit, n.want = t.logical, int64(t.unit), name
		return
	}
	switch {
	case name == "uuid" && (n.kind == text || n.kind == fixed && n.size == 16):
		n.logical, n.want = uuid, name
	case name == "decimal" && (n.kind == octets || n.kind == fixed):
		precision, err := strconv.ParseUint(number(v["precision"]), 10, 16)
		scale := uint64(0)
		if err == nil && v["scale"] != nil {
			scale, err = strconv.ParseUint(number(v["scale"]), 10, 16)
		}
		if err != nil || precision == 0 || precision > maxDecimals || scale > precision ||
			n.kind == fixed && float64(precision) > math.Floor(math.Log10(2)*float64(8*n.size-1)) {
			return
		}
		n.logical, n.precision, n.scale = decimal, int(precision), int(scale)
		n.want = fmt.Sprintf("decimal(%d,%d)", precision, scale)
	}
}
