package connector

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSetAsideKeepsTheLatest(t *testing.T) {
	var s setAside
	require.NotNil(t, s.latest())
	for i := range keptAside + 5 {
		s.add(fmt.Sprint(i), Skip, "no_topic", "", "0/1")
	}
	list := s.latest()
	require.Len(t, list, keptAside)
	require.Equal(t, "24", list[0].EventID)
	require.Equal(t, "5", list[keptAside-1].EventID)
}

// A row may hold megabytes where others have an id.
func TestSetAsideIsBounded(t *testing.T) {
	var s setAside
	s.add(strings.Repeat("ü", 1<<20), DeadLetter, "too_large", strings.Repeat("x", 300), "0/1")
	row := s.latest()[0]
	require.True(t, utf8.ValidString(row.EventID))
	require.Equal(t, strings.Repeat("ü", 100)+"…", row.EventID)
	require.Equal(t, strings.Repeat("x", 200)+"…", row.Topic)
	s.add("a"+strings.Repeat("ü", 150), DeadLetter, "too_large", "", "0/1")
	require.Equal(t, "a"+strings.Repeat("ü", 99)+"…", s.latest()[0].EventID)
}
