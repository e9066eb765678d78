package page_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
)

// awkward is a sentence as a cause may bring it: another program's error, an address three times, and much beside it.
const awkward = "Postgres 127.0.0.1:5432: cannot connect: 127.0.0.1:5432 (127.0.0.1): dial error: dial tcp " +
	"127.0.0.1:5432: connect: connection refused, and this goes on for many more words than a headline has."

// call evaluates an expression with the exports of one of the page's modules as m.
func call[T any](tab *browser.Tab, module, expression string) T {
	return browser.Eval[T](tab, fmt.Sprintf(`import('./assets/%s').then((m) => %s)`, module, expression))
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// Bug (monitor): The page's headline was the whole error text of another program, up to five lines long. Cost: the
// cause and the remedy are below the fold.
func TestEachCauseHasAHeadlineAndAHop(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	hops := map[string][]string{
		"": {slotmonitor.CauseIdle, diagnose.Streaming},
		"postgres": {
			diagnose.PostgresUnreachable, slotmonitor.CauseOpenTransaction, diagnose.PhysicalStandbys,
			"position_not_remembered", "stream_breaks",
		},
		"slot": {
			diagnose.SlotMissing, slotmonitor.CauseLost, slotmonitor.CauseNoConsumer, diagnose.Standby,
			diagnose.OtherConsumer, slotmonitor.CauseStandbyCopy,
		},
		"relay": {
			diagnose.BadRow, diagnose.NotStreaming, diagnose.Stopping, diagnose.LargeTransaction,
			diagnose.CatchingUp, diagnose.Paused, "a_code_of_tomorrow",
		},
		"kafka": {
			diagnose.BackPressure, diagnose.Unacknowledged, string(sink.BrokerUnreachable),
			string(sink.NotAuthorized), string(sink.TopicMissing), string(sink.NoLeader),
		},
	}
	for hop, codes := range hops {
		for _, code := range codes {
			for _, object := range []string{"", `slot "orders"`, strings.Repeat("many words ", 20)} {
				for _, sentence := range []string{awkward, "", "Short."} {
					c := encoded(t, alert.Cause{Code: code, Sentence: sentence, Object: object})
					said := call[string](tab, "headline.js", "m.headline("+c+")")
					n := len(strings.Fields(strings.TrimSuffix(said, " …")))
					require.LessOrEqual(t, n, 12, "%s: %s", code, said)
					require.NotContains(t, said, "dial tcp", code)
					if sentence != "" {
						require.NotEmpty(t, said, code)
					}
					require.Equal(t, hop, call[string](tab, "path.js", "m.brokenHop("+c+")"), code)
				}
			}
		}
	}
}

func TestHeadlines(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	for _, c := range []struct {
		cause alert.Cause
		want  string
	}{
		{alert.Cause{Code: "postgres_unreachable", Sentence: awkward}, "Postgres refuses connections"},
		{
			alert.Cause{Code: "bad_row", Sentence: "Halted at event 7f, LSN 0/ABCD: its key is NULL; correct it."},
			"A row cannot be published: Its key is NULL",
		},
		{
			alert.Cause{Code: "standby", Sentence: `Another instance holds the slot: backend 19324, from 10.0.0.7.`},
			"Standing by for pid 19324",
		},
		{
			alert.Cause{Code: "broker_unreachable", Object: "broker b:9092", Sentence: "has not answered for 7 s."},
			"Broker b:9092 does not answer",
		},
		{
			alert.Cause{Code: "topic_missing", Object: `topic "a.events"`, Sentence: "x: y."},
			`Topic "a.events" does not exist`,
		},
		{alert.Cause{Code: "idle", Sentence: "Nothing waits."}, "Nothing waits"},
	} {
		require.Equal(t, c.want, call[string](tab, "headline.js", "m.headline("+encoded(t, c.cause)+")"))
	}
}

// TestRoomIsTheSooner: the server's limit may be larger than the disk.
func TestRoomIsTheSooner(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	limit, long, short := int64(1<<40), 36000.0, 600.0
	for want, s := range map[string]slotmonitor.Slot{
		"Until the volume of pg_wal is full": {SecondsToLimit: &long, SecondsToFull: &short},
		"Until the slot is lost":             {SecondsToLimit: &short, SecondsToFull: &long},
	} {
		s.LimitBytes, s.SafeBytes = &limit, &limit
		got := call[[]string](tab, "tiles.js", "((r) => [r.label, r.value])(m.roomOf("+encoded(t, s)+"))")
		require.Equal(t, []string{want, "10 min"}, got)
	}
}

// Bug (monitor): A spike, as after each start, determined the vertical axis of the charts for fifteen minutes. Cost:
// rate and latency look like zero.
func TestTimeLeftAndSpikes(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	for points, want := range map[string]float64{
		`[[0, 900], [10, 800]]`:              10,
		`[[0, 9e9], [100, 900], [150, 400]]`: 10, // older than a minute does not count
		`[[0, 900], [10, 900]]`:              -1,
		`[[0, 900], [10, 950]]`:              -1,
		`[[0, 900]]`:                         -1,
		`[]`:                                 -1,
	} {
		require.InDelta(t, want, call[float64](tab, "progress.js", "m.speed("+points+") ?? -1"), 1e-9, points)
	}
	clip := func(columns, top string) float64 {
		return call[float64](tab, "charts.js", "m.clip("+columns+", "+top+") ?? -1")
	}
	usual := `Array(99).fill(10)`
	require.InDelta(t, 20, clip(`[[...`+usual+`, 13000]]`, "13000"), 0)
	require.InDelta(t, -1, clip(`[[...`+usual+`, 30]]`, "30"), 0, "no more than four times what is usual")
	require.InDelta(t, -1, clip(`[Array(99).fill(0).concat([500])]`, "500"), 0, "a spike is all there is")
	require.InDelta(t, -1, clip(`[[1, 2, 900]]`, "900"), 0, "too few to say what is usual")
}

func TestIdsAreOneWordOfAShell(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	for id, want := range map[string]string{
		"2f1a-b.c:d": "2f1a-b.c:d", "a b": "'a b'", "-x": "'-x'", "$(id)": "'$(id)'", "a'b": `'a'\''b'`,
	} {
		require.Equal(t, want, call[string](tab, "remedy.js", "m.quoted("+encoded(t, id)+")"))
	}
}

// The tab is one of many, and shows the state without being opened.
//
// Bug (monitor): The title of the page's tab remained "Streaming" after the process had ended. Cost: a tab among others
// reports a healthy relay during an outage.
func TestTheTabTellsTheState(t *testing.T) {
	p := start(t, true, streaming())
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	shows := func(state, title string) {
		t.Helper()
		tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('link[rel=icon]').dataset.state === %q && `+
			`/%s/.test(document.title)`, state, title))
	}
	shows("ok", "^Streaming · orders$")
	p.say(states()["stuck"].status)
	shows("wait", "^⚠ Waiting · orders$")
	p.say(states()["halted"].status)
	shows("bad", "^✕ Halted · orders$")
	requireClean(t, p, tab)
	p.away.Store(true)
	shows("silent", `^✕ no answer since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ · orders$`)
	p.away.Store(false)
	shows("bad", "^✕ Halted · orders$")
}

func TestASnapshotHasAnEndInSight(t *testing.T) {
	st := states()["snapshot"].status.(report)
	p := start(t, true, st)
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `/Snapshot: 1,000 of 9,000 rows, 11 % done/.test(`+
		`document.querySelector('#progress').innerText)`)
	for i := range 8 {
		snapshot := *st.Snapshot
		snapshot.Done += int64(i+1) * 500
		next := st
		next.Snapshot = &snapshot
		p.say(next)
		tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('#progress').innerText.includes('%d,%03d of')`,
			snapshot.Done/1000, snapshot.Done%1000))
	}
	tab.Await(time.Minute, `/rows\/s, about \d+ (s|min)/.test(document.querySelector('#progress').innerText)`)
}
