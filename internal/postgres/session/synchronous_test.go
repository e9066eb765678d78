package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bug (standbys): `check` did not know that a quoted `*` in `synchronous_standby_names` takes in the stream as well.
// Cost: commits that wait for Kafka, unnoticed.
func TestTakesIn(t *testing.T) {
	for names, want := range map[string]bool{
		"": false, "*": true, "a, *": true, `"*"`: true, "FIRST 1 (a, b)": false, "ANY 1 (a, *)": true,
		"2 (*)": true, `"cdc-outbox/s"`: true, `a, "CDC-outbox/s"`: true, `FIRST 1 ("cdc-outbox/s")`: true,
		`"cdc-outbox/t"`: false, `"a (b", "cdc-outbox/s"`: true, `"x, cdc-outbox/s"`: false, "first 1(*)": true,
	} {
		require.Equal(t, want, TakesIn(names, Application("s")), names)
	}
}
