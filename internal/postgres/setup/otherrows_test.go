package setup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRowsWrittenInAWindowOrSinceTheReset(t *testing.T) {
	began := time.Now()
	at := func(seconds, events, all int) written {
		return written{at: began.Add(time.Duration(seconds) * time.Second), events: int64(events), all: int64(all)}
	}
	for name, c := range map[string]struct {
		first, second written
		want          otherRows
	}{
		"busy":        {at(0, 100, 1000), at(2, 300, 3000), otherRows{200, 1800, 2 * time.Second}},
		"quiet":       {at(0, 100, 10_000), at(2, 101, 10_003), otherRows{101, 9_902, 0}},
		"no window":   {at(0, 100, 10_000), at(0, 100, 10_000), otherRows{100, 9_900, 0}},
		"reset":       {at(0, 5_000, 90_000), at(2, 10, 2_000), otherRows{10, 1_990, 0}},
		"not known":   {written{}, written{}, otherRows{}},
		"only events": {at(0, 0, 0), at(2, 4_000, 4_000), otherRows{4_000, 0, 2 * time.Second}},
	} {
		require.Equal(t, c.want, sawWritten(c.first, c.second), name)
	}
}

func TestRowsOfOtherTablesAreNamed(t *testing.T) {
	require.Empty(t, checkOtherRows(state{Written: otherRows{events: 10, others: 900}}), "too few to say anything")
	for name, c := range map[string]struct {
		written otherRows
		has     []string
		hasNot  string
	}{
		"since the reset": {
			otherRows{events: 8_000, others: 92_000},
			[]string{"92 % of", "since its statistics were reset", "(92000 of 100000)"},
			"of a core",
		},
		"now": {
			otherRows{events: 20_000, others: 80_000, over: 2 * time.Second},
			[]string{"80 % of", "in the last 2 seconds", "of its CPU per million rows, here 5.6 % of a core"},
			"reset",
		},
		"none": {otherRows{events: 5_000}, []string{"0 % of"}, "of a core"},
	} {
		found := checkOtherRows(state{Written: c.written})
		require.Len(t, found, 1, name)
		worse(t, found)
		for _, words := range c.has {
			require.Contains(t, found[0].Found, words, name)
		}
		require.NotContains(t, found[0].Found, c.hasNot, name)
	}
}

// Events are what was inserted into the outbox and its partitions; what is not logged is nothing to decode.
func TestVersionsRowsOfOtherTablesAreCounted(t *testing.T) {
	db := newAdminDB(t, strings.Replace(setupTableDDL, " PRIMARY KEY", "", 1)+" PARTITION BY RANGE (created_at)",
		"CREATE TABLE now PARTITION OF outbox DEFAULT")
	require.NoError(t, db.ensure(t, true))
	db.Exec(t, `CREATE TABLE elsewhere (n int); CREATE UNLOGGED TABLE scratch (n int);
		INSERT INTO outbox SELECT gen_random_uuid(), 'a', 'b', 'c' FROM generate_series(1, 400);
		INSERT INTO scratch SELECT generate_series(1, 5000);
		INSERT INTO elsewhere SELECT generate_series(1, 3000); UPDATE elsewhere SET n = n WHERE n <= 100;
		DELETE FROM elsewhere WHERE n <= 50; DELETE FROM outbox WHERE ctid IN (SELECT ctid FROM outbox LIMIT 40)`)
	require.Eventually(t, func() bool {
		w := lookupWritten(t.Context(), db.conn, db.cfg.Tables)
		return w.events == 400 && w.all == 400+3000+100+50+40
	}, time.Minute, 50*time.Millisecond)
	f := about(Preflight(t.Context(), db.DSN, db.cfg), codeOtherRows)
	require.NotNil(t, f)
	require.Contains(t, f.Found, "88 % of")
	require.Contains(t, f.Found, "(3190 of 3590)")
}
