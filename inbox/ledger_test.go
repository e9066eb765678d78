package inbox

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Consumer: "billing"}
	_, err := New(nil, good)
	require.NoError(t, err)
	for name, change := range map[string]func(*Options){
		"no consumer":     func(o *Options) { o.Consumer = "" },
		"long consumer":   func(o *Options) { o.Consumer = strings.Repeat("x", 256) },
		"NUL":             func(o *Options) { o.Consumer = "a\x00" },
		"no text":         func(o *Options) { o.Consumer = "\xff" },
		"strategy":        func(o *Options) { o.Strategy = "hope" },
		"isolation":       func(o *Options) { o.Isolation = sql.LevelLinearizable },
		"table too long":  func(o *Options) { o.Table = strings.Repeat("x", 64) },
		"negative repeat": func(o *Options) { o.Attempts = -1 },
	} {
		bad := good
		change(&bad)
		_, err := New(nil, bad)
		require.Error(t, err, name)
		_, err = NewSQL(nil, bad)
		require.Error(t, err, name)
	}
}

func TestEventIDs(t *testing.T) {
	for _, id := range []string{"", strings.Repeat("x", 513), "a\x00", "\xff"} {
		require.ErrorIs(t, Event{ID: id}.validate(), ErrEventID)
	}
	require.NoError(t, Event{ID: strings.Repeat("ä", 256)}.validate())
	require.Nil(t, Event{}.source())
	require.Equal(t, "ab", Event{Source: "a\x00b\xff"}.source())
	require.Equal(t, strings.Repeat("x", 511), Event{Source: strings.Repeat("x", 511) + "ä"}.source())
}

// The key may never change: two versions of a service would not see each other's locks.
func TestLockKey(t *testing.T) {
	require.EqualValues(t, int64(-3520682301520058639), lockKey("billing", "018f4d3c-0000-7000-8000-000000000001"))
	require.NotEqual(t, lockKey("a", "bc"), lockKey("ab", "c"))
}

// docs/ledger.md is the contract for other languages: it has the statements that this package runs.
func TestThePageOfTheLedger(t *testing.T) {
	b, err := os.ReadFile("../docs/ledger.md")
	require.NoError(t, err)
	l, err := newLedger(Options{Consumer: "billing"})
	require.NoError(t, err)
	schema, err := Schema(Options{})
	require.NoError(t, err)
	for _, statement := range []string{
		schema, transactionID, lockStatement, l.insert, l.each, l.states, l.complete, l.state, l.reserve,
		l.confirm, l.release, l.handled, l.prune,
	} {
		require.Contains(t, string(b), "\n"+strings.TrimSuffix(strings.TrimSpace(statement), ";")+";\n")
	}
}

func TestWhatMayEndATransaction(t *testing.T) {
	for _, text := range []string{
		"COMMIT", "rollback and chain", " \t\n\vEnd;", "/* a */ abort", "-- a\nROLLBACK", "-- a\rcommit",
		"SELECT 1;END",
		"SELECT 1; ; /* / */ commit and chain", "prepare transaction 'a'", "a_prepared_statement", "SAVEPOINT a",
		"rollback/* a */and chain", "/*/**/*/commit;",
	} {
		require.True(t, mayEnd(text), text)
	}
	for _, text := range []string{
		"SELECT 1", "INSERT INTO a VALUES ($1) ON CONFLICT DO NOTHING", "SELECT CASE WHEN a THEN b END FROM c",
		"UPDATE a SET b = 'rollback' WHERE c = $1;", "SELECT a AS commit", "SELECT 1; SELECT 2",
		"  -- rollback\n SELECT 1",
	} {
		require.False(t, mayEnd(text), text)
	}
}
