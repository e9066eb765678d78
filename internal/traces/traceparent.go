package traces

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// Lengths in a traceparent: 2 digits version, 32 trace id, 16 parent id, 2 flags, with hyphens between.
const (
	traceparentLen = 2 + 1 + 32 + 1 + 16 + 1 + 2
	atTraceID      = 3
	atParentID     = 36
	atFlags        = 53
)

// parent is what a traceparent says.
type parent struct {
	traceID trace.TraceID
	spanID  trace.SpanID
	sampled bool
}

// parseTraceparent reads a traceparent as W3C Trace Context (section 3.2) has it: lower-case hexadecimal digits, neither id all
// zeros, version ff forbidden, and of a version later than 00 whatever follows behind another hyphen. Anything else is as if it
// were not there. It allocates nothing and looks at 56 bytes at most, whatever a row holds.
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
	if !ok || !decodeID(p.traceID[:], s[atTraceID:atTraceID+32]) || !decodeID(p.spanID[:], s[atParentID:atParentID+16]) {
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
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	if _, err := hex.Decode(dst, digits); err != nil {
		return false
	}
	for _, b := range dst {
		if b != 0 {
			return true
		}
	}
	return false
}

func lowerHex(two []byte) (byte, bool) {
	var b [1]byte
	for _, c := range two {
		if c >= 'A' && c <= 'F' {
			return 0, false
		}
	}
	_, err := hex.Decode(b[:], two)
	return b[0], err == nil
}
