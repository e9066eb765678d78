package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Only what is younger than the oldest row that every table keeps is judged: the row of an earlier event, and of one of
// the same millisecond, may have been deleted, so its absence says nothing.
func TestOnlyEventsOfRowsThatAreKeptAreJudged(t *testing.T) {
	const ms = time.Millisecond
	from := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	kept := from.Truncate(ms)
	for name, test := range map[string]struct {
		at     time.Time
		since  time.Time
		append bool // the broker's time
		want   GhostReport
	}{
		"long before":                 {from.Add(-time.Hour), time.Time{}, false, GhostReport{Records: 1, Earlier: 1}},
		"of the same millisecond":     {kept, time.Time{}, false, GhostReport{Records: 1, Earlier: 1}},
		"a millisecond before":        {kept.Add(-ms), time.Time{}, false, GhostReport{Records: 1, Earlier: 1}},
		"after it":                    {kept.Add(ms), time.Time{}, false, GhostReport{Records: 1, Judged: 1}},
		"by the operator's word":      {from.Add(-time.Hour), from, false, GhostReport{Records: 1, Earlier: 1}},
		"the broker's time":           {from.Add(time.Hour), time.Time{}, true, GhostReport{Records: 1, AppendTime: 1}},
		"the broker's time, by since": {from.Add(time.Hour), from, true, GhostReport{Records: 1, Judged: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := search{o: &GhostOptions{Since: test.since}, seen: map[string]*Ghost{}}
			s.report.From = from
			require.NoError(t, s.noteRecord(t.Context(), &sink.Message{
				Topic: "t", Timestamp: test.at.UnixMilli(), AppendTime: test.append,
				Headers: []router.Header{{Key: "id", Value: []byte("e-1")}},
			}))
			test.want.From = from
			require.Equal(t, test.want, s.report)
			require.Len(t, s.asked, int(test.want.Judged))
		})
	}
}
