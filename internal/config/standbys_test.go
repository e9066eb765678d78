package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaitForStandbys(t *testing.T) {
	c, err := load(t, "postgres: {wait_for_standbys: [a, b, c], wait_for_standbys_count: 2}", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, c.Postgres.WaitForStandbys)
	require.Equal(t, 2, c.Postgres.WaitForStandbysCount)
	_, err = load(t, "postgres: {wait_for_standbys: synchronous_standby_names}", nil)
	require.NoError(t, err)

	for text, want := range map[string]string{
		"{wait_for_standbys: [a, A]}":                                                "twice",
		`{wait_for_standbys: ["*"]}`:                                                 "not the application_name",
		"{wait_for_standbys: [a, synchronous_standby_names]}":                        "the only entry",
		"{wait_for_standbys: [a], wait_for_standbys_count: 2}":                       "names 1",
		"{wait_for_standbys_count: 1}":                                               "names 0",
		"{wait_for_standbys: [a], wait_for_standbys_count: -1}":                      "is -1",
		"{wait_for_standbys: [a], hot_standby: true, checkpoint: off}":               "postgres.hot_standby",
		"{wait_for_standbys: synchronous_standby_names, wait_for_standbys_count: 1}": "says how many",
	} {
		_, err := load(t, "postgres: "+text, nil)
		require.ErrorContains(t, err, want, text)
	}
}
