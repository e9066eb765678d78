package conformance

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// outcome is what became of one row: a record, or the reason why there is none.
type outcome struct {
	Fate      string // what is there instead of a record, e.g. "dies: …"; empty for a record
	Topic     string
	Partition *int32 // nil: left to the producer, which goes by the key
	Timestamp *int64 // nil: when the connector handled the row
	Key       []byte // nil: null, as in the other two
	Value     []byte
	Headers   []header
}

// refusedAtStart begins the fate of every row where the configuration is refused.
const refusedAtStart = "refused at the start: "

type header struct {
	Key   string
	Value []byte
}

const runIDHeader = "__debezium.context.runId"

// What differs from run to run is replaced in what is compared.
var (
	runID        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	objectHash   = regexp.MustCompile(`(\[B|\[L[A-Za-z.]+;)@[0-9a-f]+`)
	messageClock = regexp.MustCompile(`\b(ts_ms|ts_us|ts_ns|db|txId|lsn|sequence)=(\w+|\[null,"\d+"\])`)
	plainName    = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

// String is the outcome as it is written in a case, without its number. Equal texts are equal records, byte for byte.
func (o *outcome) String() string {
	if o.Fate != "" {
		return o.Fate + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "topic %s", quoteName(o.Topic))
	if o.Partition != nil {
		fmt.Fprintf(&b, ", partition %d", *o.Partition)
	}
	if o.Timestamp != nil {
		fmt.Fprintf(&b, ", timestamp %d", *o.Timestamp)
	}
	fmt.Fprintf(&b, "\n  key    %s\n  value  %s\n", quote(o.Key), quote(o.Value))
	for _, h := range o.Headers {
		value := h.Value
		if h.Key == runIDHeader {
			value = runID.ReplaceAll(value, []byte("<run id>")) // of a value that is never empty
		}
		fmt.Fprintf(&b, "  header %s %s\n", quoteName(h.Key), quote(value))
	}
	return b.String()
}

// quote renders bytes readably and without loss, on one line.
func quote(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case bytes.IndexByte(b, '"') >= 0 && strconv.CanBackquote(string(b)):
		return "`" + string(b) + "`"
	default:
		return strconv.Quote(string(b))
	}
}

func quoteName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

// settle takes out of Debezium's answer what it will not repeat.
func (o *outcome) settle() {
	settled := func(b []byte) []byte {
		if len(b) == 0 {
			return b // ReplaceAll makes nil, which is null, of the empty string
		}
		b = objectHash.ReplaceAll(b, []byte("$1@<hash>"))
		if bytes.HasPrefix(b, []byte("Struct{op=m,")) {
			b = messageClock.ReplaceAll(b, []byte("$1=<varies>"))
		}
		return b
	}
	o.Fate = objectHash.ReplaceAllString(o.Fate, "$1@<hash>")
	o.Key, o.Value = settled(o.Key), settled(o.Value)
	for i := range o.Headers {
		o.Headers[i].Value = settled(o.Headers[i].Value)
	}
}

// numbered puts outcomes together as they are written in a case.
func numbered(outcomes []outcome) string {
	var b strings.Builder
	for i := range outcomes {
		fmt.Fprintf(&b, "%d %s", i+1, outcomes[i].String())
	}
	return b.String()
}

var rowNumber = regexp.MustCompile(`(?m)^\d+ `)

// split takes numbered text apart: row number to the outcome's text.
func split(text string) map[int]string {
	parts := map[int]string{}
	at := rowNumber.FindAllStringIndex(text, -1)
	for i, loc := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		n, _ := strconv.Atoi(text[loc[0] : loc[1]-1])
		parts[n] = text[loc[1]:end]
	}
	return parts
}
