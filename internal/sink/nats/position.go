package nats

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Names of headers that the relay adds to a row's own.
const (
	headerKey       = "Outbox-Key"       // the key of the record
	headerTime      = "Outbox-Timestamp" // of the record, RFC 3339 with milliseconds
	headerTombstone = "Outbox-Tombstone" // "true": the payload is NULL, not empty
	headerEscaped   = "Outbox-Escaped"   // names of headers whose values are escaped, see escape
	headerRelay     = "Outbox-Relay"     // sink.Owner.ID
	headerPosition  = "Outbox-Position"  // see positionText
)

// positionText is the position of a row in a header: timeline, commit record and index in hexadecimal, number of the
// transaction, and the time of its commit in microseconds since 1970.
func positionText(p sink.Position) string {
	at := int64(0)
	if p.XID != 0 {
		at = p.Time.UnixMicro()
	}
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(b, int64(p.Timeline), 10)
	b = append(b, ' ')
	b, _ = p.Position.AppendText(b) // cannot fail
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(p.XID), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, at, 10)
	return string(b)
}

var errPosition = errors.New("it is not a position")

// parsePosition reads positionText.
func parsePosition(text string) (sink.Position, error) {
	fields := strings.Split(text, " ")
	if len(fields) != 4 {
		return sink.Position{}, errPosition
	}
	timeline, err1 := strconv.ParseInt(fields[0], 10, 32)
	at, err2 := lsn.ParsePosition(fields[1])
	xid, err3 := strconv.ParseUint(fields[2], 10, 32)
	micros, err4 := strconv.ParseInt(fields[3], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return sink.Position{}, errPosition
	}
	p := sink.Position{Timeline: int32(timeline), Position: at, XID: uint32(xid)}
	if p.XID != 0 {
		p.Time = time.UnixMicro(micros).UTC()
	}
	return p, nil
}
