package main

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

// Bug (setup): `check` left rows without a legal topic out of its sample. Cost: "0 to fix", and a relay that halts at
// its first row.
func TestCheckLooksAtBothSides(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	broker, err := fakebroker.Start(fakebroker.Options{Topics: map[string]int32{"orders.events": 3}})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	env := append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","))
	none := invoke(t, env, "check", "--json")
	require.Equal(t, 3, none.code, none.all())
	require.Equal(t, preflight.Warn, found(t, none.stdout, "topics").Level,
		"there is no outbox whose rows could name one")
	ddl, err := outbox.Schema(outbox.Options{})
	require.NoError(t, err)
	db.Exec(t, ddl)
	require.Equal(t, 0, invoke(t, env, "check").code, "run creates the slot")
	r := invoke(t, env, "check", "--postgres-setup", "never")
	require.Equal(t, 3, r.code, "and does not here: "+r.all())
	require.Contains(t, r.stdout, "postgres.setup is never")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)

	r = invoke(t, env, "check")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "✓ topics: No row in the outbox names one yet")
	repeats := "After a crash, the events of the last moments"
	require.Contains(t, r.stdout, "✓ promised repeats: "+repeats)
	require.Contains(t, invoke(t, env, "status", "--json").stdout, repeats)
	require.Contains(t, invoke(t, append(env, "CDC_OUTBOX_DELIVERY=exactly_once"), "status", "--json").stdout,
		"isolation.level=read_committed")
	require.NotContains(t, r.stdout, "\n✓ topic ",
		"an empty outbox leads to no topic, and the cluster's others are not our business")

	r = invoke(t, env, "check", "--json")
	require.Contains(t, r.stdout, `"code": "slot_wal_unlimited"`)
	require.Contains(t, r.stdout, "monitor.warn_retained (1 GiB)")

	db.Exec(t, `ALTER TABLE outbox ALTER aggregate_id DROP NOT NULL`)
	nullable := found(t, invoke(t, env, "check", "--json").stdout, "table public.outbox")
	require.Equal(t, preflight.Warn, nullable.Level)
	require.Contains(t, nullable.Found, `Column "aggregate_id" (router.columns.aggregate_id) may be NULL.`)
	db.Exec(t, nullable.Commands[0])
	require.Equal(t, preflight.OK, found(t, invoke(t, env, "check", "--json").stdout, "table public.outbox").Level)

	db.Exec(t, `ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check`)
	odd := strings.ReplaceAll(insertOrder, "'orders'", "'it''s odd'")
	db.Exec(t, odd)
	r = invoke(t, env, "check")
	require.Contains(t, r.stdout, "1 of 1 sampled rows cannot become a record.")
	require.NotContains(t, r.stdout, "names one yet", "a row that is bad names no topic")
	db.Exec(t, "DELETE FROM outbox")
	db.Exec(t, insertOrder)
	db.Exec(t, odd)
	r = invoke(t, env, "check", "--json")
	require.Equal(t, 3, r.code, r.all())
	require.NotEqual(t, preflight.Fail, found(t, r.stdout, "orders.events").Level, "it warns of a single replica")
	sample := func(stdout string) preflight.Finding {
		var got report
		require.NoError(t, json.Unmarshal([]byte(stdout), &got))
		i := slices.IndexFunc(got.Findings, func(f preflight.Finding) bool {
			return strings.Contains(f.Found, "sampled rows")
		})
		require.GreaterOrEqual(t, i, 0, stdout)
		return got.Findings[i]
	}
	require.Equal(t, preflight.Fail, sample(r.stdout).Level)
	require.Contains(t, sample(r.stdout).Found, "1 of 2 sampled rows cannot become a record. Event ")
	require.Contains(t, sample(r.stdout).Found, "(illegal_topic)")
	r = invoke(t, env, "check", "--json", "--router-on-bad-row", "skip")
	require.Equal(t, 0, r.code, r.all())
	require.Equal(t, preflight.Warn, sample(r.stdout).Level)

	db.Exec(t, strings.ReplaceAll(insertOrder, "'orders'", "'refunds'"))
	r = invoke(t, env, "check", "--json")
	require.Equal(t, 3, r.code, r.all())
	require.Equal(t, preflight.Warn, sample(r.stdout).Level, "a later row is good")
	missing := found(t, r.stdout, "refunds.events")
	require.Equal(t, preflight.Fail, missing.Level)
	require.Contains(t, missing.ToDo().String(), "kafka-topics")

	addr := broker.Addrs()[0] // a closed one no longer says
	broker.Close()
	r = invoke(t, env, "check")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, addr)
}

// found returns the finding whose subject names the object.
func found(t *testing.T, stdout, object string) preflight.Finding {
	t.Helper()
	var got report
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	for _, f := range got.Findings {
		if strings.Contains(f.Subject, object) {
			return f
		}
	}
	t.Fatalf("no finding about %s in %s", object, stdout)
	return preflight.Finding{}
}

// failures returns the findings that fail.
func failures(t *testing.T, stdout string) (out []preflight.Finding) {
	t.Helper()
	var got report
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	for _, f := range got.Findings {
		if f.Level == preflight.Fail {
			out = append(out, f)
		}
	}
	return out
}

// TestWindowRowBoundsCommands: a command that reads rows by SQL receives none that is longer than window.row, and
// its error leads to the row.
func TestWindowRowBoundsCommands(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t))
	env := append(b.env, "CDC_OUTBOX_WINDOW_ROW=1MiB")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	b.db.Exec(t, insertOrder)
	b.db.Exec(t, strings.Replace(insertOrder, "'orders'", "'long'", 1)) // its topic is new
	b.db.Exec(t, `UPDATE outbox SET payload = to_jsonb(repeat('x', 3000000)) WHERE aggregate_type = 'long'`)
	conn, err := b.db.Server.Connect(t.Context(), b.db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, args := range [][]string{{"preview", "--last", "10"}, {"replay", "--all", "--dry-run"}} {
		r := invoke(t, env, args...)
		require.Equal(t, 3, r.code, r.all())
		require.Contains(t, r.stderr, "window.row allows 1048576")
		where := regexp.MustCompile(`octet_length\S+ > \d+`).FindString(r.stderr)
		var long string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT aggregate_type FROM outbox o WHERE "+where).Scan(&long))
		require.Equal(t, "long", long)
	}
	f := found(t, invoke(t, env, "check", "--json").stdout, "rows")
	require.Equal(t, preflight.Fail, f.Level, f.Found)
	require.Contains(t, f.Found, "window.row allows 1048576")
	f = found(t, invoke(t, append(env, "CDC_OUTBOX_ROUTER_ON_BAD_ROW=skip"), "check", "--json").stdout, "rows")
	require.Equal(t, preflight.Warn, f.Level, f.Found)
}
