package traces

import "go.opentelemetry.io/otel/trace"

// Lengths in a traceparent: 2 digits version, 32 trace id, 16 parent id, 2 flags, with hyphens between.
const (
	traceparentLen = 2 + 1 + 32 + 1 + 16 + 1 + 2
	atTraceID      = 3
	atParentID     = 36
	atFlags        = 53
)

// parent is the content of a traceparent.
type parent struct {
	traceID trace.TraceID
	spanID  trace.SpanID
	sampled bool
}

// parseTraceparent reads a traceparent of W3C Trace Context (section 3.2): lower-case hexadecimal digits, no id of
// zeros, version ff forbidden; in versions later than 00 any text may follow after another hyphen. Any other text
// counts as no traceparent. It allocates nothing and reads at most 56 bytes.
func parseTraceparent(s []byte) (p parent, ok bool) {
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return parent{}, false
	}
	version, ok := lowerHex(s[0:2])
	switch {
	case !ok || version == 0xff:
		return parent{}, false
	case len(s) > traceparentLen && (version == 0 || s[traceparentLen] != '-'):
		return parent{}, false
	}
	flags, ok := lowerHex(s[atFlags:traceparentLen])
	if !ok || !decodeID(p.traceID[:], s[atTraceID:atTraceID+32]) ||
		!decodeID(p.spanID[:], s[atParentID:atParentID+16]) {
		return parent{}, false
	}
	p.sampled = flags&byte(trace.FlagsSampled) != 0
	return p, true
}

// parseTraceID reads a trace id alone, as the envelope's member has it.
func parseTraceID(s []byte) (id trace.TraceID, ok bool) {
	if len(s) != 32 || !decodeID(id[:], s) {
		return trace.TraceID{}, false
	}
	return id, true
}

// decodeID fills dst; false for anything but lower-case digits, and for an id of zeros.
func decodeID(dst, digits []byte) bool {
	some := byte(0)
	for i := range dst {
		high, low := lower[digits[2*i]], lower[digits[2*i+1]]
		if high|low > 15 {
			return false
		}
		dst[i] = high<<4 | low
		some |= dst[i]
	}
	return some != 0
}

func lowerHex(two []byte) (byte, bool) {
	high, low := lower[two[0]], lower[two[1]]
	return high<<4 | low, high|low <= 15
}

// lower is the value of each lower-case hexadecimal digit, and 255 for any other byte. Package hex accepts capitals
// too.
var lower = func() (table [256]byte) {
	for c := range table {
		switch {
		case '0' <= c && c <= '9':
			table[c] = byte(c - '0')
		case 'a' <= c && c <= 'f':
			table[c] = byte(c - 'a' + 10)
		default:
			table[c] = 255
		}
	}
	return table
}()
