package relay

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestBadRowsKeepTheLatest(t *testing.T) {
	var s BadRows
	require.NotNil(t, s.Latest())
	for i := range keptBadRows + 5 {
		s.Add(BadRow{EventID: fmt.Sprint(i), Action: Skip, Reason: "no_topic", LSN: "0/1"})
	}
	list := s.Latest()
	require.Len(t, list, keptBadRows)
	require.Equal(t, "24", list[0].EventID)
	require.Equal(t, "5", list[keptBadRows-1].EventID)
}

// A row may hold megabytes where others have an id.
func TestBadRowsAreBounded(t *testing.T) {
	var s BadRows
	s.Add(BadRow{EventID: strings.Repeat("ü", 1<<20), Topic: strings.Repeat("x", 300)})
	row := s.Latest()[0]
	require.True(t, utf8.ValidString(row.EventID))
	require.Equal(t, strings.Repeat("ü", 100)+"…", row.EventID)
	require.Equal(t, strings.Repeat("x", 200)+"…", row.Topic)
	s.Add(BadRow{EventID: "a" + strings.Repeat("ü", 150)})
	require.Equal(t, "a"+strings.Repeat("ü", 99)+"…", s.Latest()[0].EventID)
}
