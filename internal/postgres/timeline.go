package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// TimelineSwitch is where a timeline of a server's past ended: the log up to At is the log of that timeline as well.
type TimelineSwitch struct {
	Timeline int32
	At       lsn.LSN
}

// ParseTimelineHistory reads a timeline history file (Postgres docs 26.3.6; timeline.c, readTimeLineHistory): a line
// for each timeline of the past, with the position where the next one branched off.
func ParseTimelineHistory(file string) ([]TimelineSwitch, error) {
	var out []TimelineSwitch
	for line := range strings.Lines(file) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("the timeline history has the line %q", line)
		}
		timeline, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the timeline history has the line %q", line)
		}
		at, err := lsn.Parse(fields[1])
		if err != nil {
			return nil, fmt.Errorf("the timeline history has the line %q", line)
		}
		out = append(out, TimelineSwitch{int32(timeline), at})
	}
	return out, nil
}

// switchOf returns where the timeline ended in this history.
func switchOf(past []TimelineSwitch, timeline int32) (lsn.LSN, bool) {
	for _, s := range past {
		if s.Timeline == timeline {
			return s.At, true
		}
	}
	return 0, false
}
