package page_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
)

// report is the status report of a connector.
type report struct {
	connector.Status
	ReplicationSlot *slotmonitor.Slot `json:"replication_slot"`
	Cause           alert.Cause       `json:"cause"`
	Alerts          []firingAlert     `json:"alerts"`
}

type firingAlert struct {
	alert.FiringAlert
	Runbook string `json:"runbook"`
}

// polled is what /status says of a relay that polls.
type polled struct {
	polling.Status
	Cause  alert.Cause            `json:"cause"`
	Alerts []firingAlert          `json:"alerts"`
	Topics []telemetry.TopicCount `json:"topics"`
}

type slots struct {
	Slots  []slotmonitor.Slot `json:"slots"`
	Error  string             `json:"error,omitempty"`
	Alerts []firingAlert      `json:"alerts,omitempty"`
}

// process answers as one would, whose status the test sets.
type process struct {
	*httptest.Server
	status atomic.Pointer[any]
	away   atomic.Bool
	asked  atomic.Int64
}

func start(t *testing.T, withRelay bool, status any, before ...func(*page.Page)) *process {
	t.Helper()
	p := &process{}
	p.say(status)
	cfg := page.Config{
		SlotInterval: time.Second, WarnRetained: 1 << 30, CriticalRetained: 10 << 30, Version: "v1.2.3",
		Slots: func() []page.Slot {
			return []page.Slot{{Name: "orders", SampledAt: time.Now(), Retained: 48 << 20, Unconfirmed: 1 << 20}}
		},
	}
	if withRelay {
		var n uint64
		cfg.Relay = func() page.Relay {
			n += 100
			return page.Relay{
				Published: n, Bounds: []float64{.001, .01}, Counts: []uint64{n / 2, n, n}, Records: 12, Bytes: 4096,
				Oldest: .25,
			}
		}
	}
	pg := page.New(cfg)
	for _, fill := range before {
		fill(pg)
	}
	done := make(chan error, 1)
	go func() { done <- pg.Run(t.Context()) }()
	handler := telemetry.NewHandler(telemetry.Handlers{
		Metrics: prometheus.NewRegistry(), Ready: func() (bool, string) { return true, "" },
		Status: func() any { return *p.status.Load() }, Page: pg,
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" {
			p.asked.Add(1)
		}
		if p.away.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		handler.ServeHTTP(w, r)
	}))
	p.Config.ErrorLog = nil
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
		require.NoError(t, <-done)
	})
	return p
}

func (p *process) say(status any) { p.status.Store(&status) }

func size(n int64) *int64 { return &n }

// streaming is a connector that is well.
func streaming() report {
	began, heard, growth := time.Now().Add(-time.Hour), 0.1, 2048.0
	left := 3600.0
	return report{
		Status: connector.Status{
			State: relay.State{Name: relay.Streaming, Since: began}, Ready: true, ReadyReason: "streaming",
			Slot: "orders", Publication: "orders",
			Server:       connector.Server{SystemID: "7", Timeline: 1, Database: "shop", Version: "17.2"},
			ConfirmedLSN: "0/16B3748", ReceivedLSN: "0/16B3750",
			HeardSecondsAgo: &heard,
			Window: connector.Window{
				Window: relay.Window{Records: 12, Bytes: 4096, MaxRecords: 100_000, MaxBytes: 32 << 20},
			}, Waits: []fault.Wait{},
			Counts: connector.Counts{Counts: relay.Counts{Published: 1_234_567}},
			Topics: []telemetry.TopicCount{
				{Topic: "order.events", Published: 1_234_000}, {Topic: "payment.events", Published: 567},
			},
			Aside: []relay.BadRow{},
		},
		ReplicationSlot: &slotmonitor.Slot{
			Name: "orders", Database: "shop", Plugin: "pgoutput", Active: true, PID: 77, WALStatus: "reserved",
			RestartLSN: "0/16B0000", ConfirmedFlushLSN: "0/16B3748", RetainedBytes: 48 << 20, UnconfirmedBytes: 1 << 20,
			LimitBytes: size(64 << 20), SafeBytes: size(16 << 20), GrowthPerSecond: &growth, SecondsToLimit: &left,
			SampledAt: time.Now(),
		},
		Cause:  alert.Cause{Code: "idle", Sentence: "There is nothing to send: all that was committed is confirmed."},
		Alerts: []firingAlert{},
	}
}

// states are what the page must be able to show, with words that must be on it.
func states() map[string]struct {
	status any
	relay  bool
	words  []string
} {
	since := time.Now().Add(-90 * time.Second)
	cause := func(code, sentence, object, next string) alert.Cause {
		return alert.Cause{Code: code, Sentence: sentence, Object: object, Next: next, Since: &since}
	}
	fires := func(rule string, level alert.Level, sentence string, why alert.Cause) firingAlert {
		return firingAlert{
			alert.FiringAlert{
				Alert: alert.Alert{Rule: rule, Level: level, Sentence: sentence}, Since: since, Cause: why,
			},
			"https://example.org/runbook#" + rule,
		}
	}
	type state = struct {
		status any
		relay  bool
		words  []string
	}
	stuck := streaming()
	stuck.Ready, stuck.ReadyReason = false, "Kafka has not acknowledged the oldest event for 90s"
	stuck.Waits = []fault.Wait{
		{
			Kind: "broker_unreachable", Object: "broker b:9092", Reason: "connection refused", Next: "Start it.",
			Since: since,
		},
		{
			Kind: "topic_missing", Object: `topic "refund.events"`, Reason: "it does not exist", Next: "Create it.",
			Commands: []string{"kafka-topics --create --topic refund.events"}, Since: since,
		},
	}
	stuck.Cause = cause("broker_unreachable", "broker b:9092: connection refused.", "broker b:9092", "Start it.")
	stuck.Alerts = []firingAlert{
		fires("events_unconfirmed", alert.Warn, "A transaction that was committed 1 min 30 s ago is not confirmed.",
			stuck.Cause),
		fires("slot_retained_wal", alert.Warn, "The slot holds back 2 GiB of WAL.", cause("open_transaction",
			"Held back by a transaction of pid 77.", "pid 77", "End it.")),
	}
	stuck.OldestUnconfirmedSeconds = 90

	halted := streaming()
	halted.State = relay.State{Name: relay.Halted, Since: since}
	halted.Ready, halted.ReadyReason = false, "halted at event e-1"
	halted.Halted = &relay.HaltedRow{
		EventID: "e-1", LSN: "0/ABCD", Message: "headers are not an object", Next: "Correct it.",
		Commands: []string{"SELECT 1;\nSELECT 2;", "cdc-outbox dead-letter retry"}, Since: since,
	}
	halted.Cause = cause("bad_row", "Halted at event e-1, LSN 0/ABCD: headers are not an object.", "event e-1",
		"Correct it.")
	halted.Cause.Commands = halted.Halted.Commands
	halted.Alerts = []firingAlert{
		fires("row_halted", alert.Critical, "The relay is halted at event e-1.", halted.Cause),
	}

	standby := streaming()
	standby.State = relay.State{Name: relay.WaitingForSlot, Reason: "held by pid 5", Since: since}
	standby.Ready, standby.ConfirmedLSN, standby.ReceivedLSN, standby.HeardSecondsAgo = false, "", "", nil
	standby.Server = connector.Server{}
	standby.Cause = cause("standby", "The slot is held by pid 5.", `slot "orders"`, "")

	blind := streaming() // the role may not look, or the server is away
	blind.ReplicationSlot = nil
	blind.Waits = []fault.Wait{
		{
			Kind: "postgres_unreachable", Object: `slot "orders"`, Reason: "permission denied for function",
			Next: "Grant it.", Since: since,
		},
	}
	blind.Cause = cause("postgres_unreachable", "slot \"orders\": permission denied for function.", `slot "orders"`,
		"Grant it.")

	fresh := report{
		Status: connector.Status{
			State: relay.State{
				Name: relay.Starting, Reason: "looking at publication and slot", Since: time.Now(),
			},
			ReadyReason: "starting",
			Slot:        "orders", Publication: "orders", Waits: []fault.Wait{}, Topics: []telemetry.TopicCount{},
			Aside: []relay.BadRow{}, Window: connector.Window{Window: relay.Window{MaxRecords: 1, MaxBytes: 1}},
		},
		Cause:  alert.Cause{Code: "not_streaming", Sentence: "The stream from Postgres is being opened."},
		Alerts: []firingAlert{},
	}

	snapshot := streaming()
	snapshot.State, snapshot.Ready = relay.State{Name: relay.Snapshotting, Since: since}, false
	snapshot.Snapshot = &connector.SnapshotStatus{Done: 1000, Total: 9000}

	raw := streaming()
	raw.State, raw.Ready = relay.State{Name: relay.Reconnecting, Since: since}, false
	raw.Cause = cause("postgres_unreachable", awkward, "postgres 127.0.0.1:5432", "See whether the server runs.")

	letters := streaming()
	letters.Aside = []relay.BadRow{
		{
			EventID: "2f1a", Type: "order.created", Action: relay.DeadLetter, Reason: "bad_headers", LSN: "0/1",
			At: since,
		},
		{EventID: "", Action: relay.Skip, Reason: "too_large", Topic: "order.events", LSN: "0/2", At: since},
	}
	letters.Counts.DeadLettered = 1
	why := cause("dead_letters", "Rows that cannot be published were dead-lettered or skipped.", "",
		"Correct the rows, and publish them again.")
	why.Commands = []string{"cdc-outbox dead-letter list"}
	letters.Alerts = []firingAlert{fires("dead_letters", alert.Warn, why.Sentence, why)}

	paused := streaming()
	paused.State, paused.Ready = relay.State{Name: relay.Paused, Reason: "paused by ann: upgrade", Since: since}, false
	paused.Cause = cause("paused", "Paused by ann: upgrade of the brokers.", "", "Resume when the reason is past.")
	paused.Cause.Commands = []string{"cdc-outbox resume"}

	stays := streaming()
	stays.State, stays.Ready = relay.State{Name: relay.NeedsOperator, Since: since}, false
	stays.Cause = cause("needs_operator", `Publication "orders" does not exist.`, `publication "orders"`,
		"Create it.")

	heard, old := 0.2, 3.0
	polls := polled{
		Status: polling.Status{
			Source: "polling", State: relay.State{Name: relay.Polling, Since: since}, Ready: true,
			Tables: []string{"public.outbox"}, HeardSecondsAgo: &heard, Workers: 4,
			Backlog: &relay.Backlog{Rows: 17, Oldest: &old, At: time.Now()},
			Window:  relay.Window{MaxRecords: 1000, MaxBytes: 1 << 20}, Halted: []*relay.HaltedRow{},
			Waits:  []fault.Wait{},
			Counts: relay.Counts{Published: 4711, DeadLettered: 2},
		},
		Cause:  alert.Cause{Code: slotmonitor.CauseIdle, Sentence: "The relay waits for nothing."},
		Alerts: []firingAlert{}, Topics: []telemetry.TopicCount{{Topic: "a.events", Published: 4711}},
	}
	pollStands := polls
	pollStands.Halted = []*relay.HaltedRow{
		{EventID: "e-7", Message: "headers are not an object", Next: "Fix it.", Since: since},
	}
	pollStands.State = relay.State{Name: relay.Halted, Since: since}
	pollStands.Ready = false
	pollStands.Cause = cause("bad_row", "Headers are not an object.", "event e-7", "Fix it.")

	worst := *streaming().ReplicationSlot
	worst.Name, worst.Active, worst.Level, worst.WALStatus = "debezium", false, alert.Critical, "unreserved"
	worst.Cause = cause("no_consumer", "No process has read the slot since yesterday.", `slot "debezium"`, "Drop it.")
	worst.Cause.Commands = []string{"SELECT pg_drop_replication_slot('debezium');"}
	well := *streaming().ReplicationSlot
	well.LimitBytes, well.SafeBytes, well.SecondsToLimit, well.GrowthPerSecond = nil, nil, nil, nil
	well.Cause = alert.Cause{Code: "idle", Sentence: "Nothing waits."}

	return map[string]state{
		"streaming": {
			streaming(), true, []string{
				"Streaming", "Keeping up", "1,234,567 since the process started",
				"of 64 MiB that the server keeps at most", "It grows by 2 KiB/s: it reaches the limit in 1 h",
				"< 1 % of 100,000 records", "75 % of 64 MiB",
				"order.events", "1,234,000", "No alert fires", "PostgreSQL 17.2", "v1.2.3",
			},
		},
		"stuck": {
			stuck, true, []string{
				"Waiting", "Broker b:9092 refuses connections", "broker b:9092: connection refused.", "waits here",
				"What to do", "Start it.",
				"Also waits for topic \"refund.events\": it does not exist Create it.",
				"kafka-topics --create --topic refund.events", "events_unconfirmed", "Runbook", "90 s",
				"broker_unreachable",
				"An open transaction holds the slot back: pid 77", "End it.",
			},
		},
		"halted": {
			halted, true, []string{
				"Halted", "A row cannot be published: Headers are not an object", "broken here",
				"e-1", "0/ABCD", "Correct it.", "SELECT 1;\nSELECT 2;",
				"cdc-outbox dead-letter retry", "row_halted", "Critical",
			},
		},
		"standby": {standby, true, []string{"Standby", "Standing by for pid 5", "The slot is held by pid 5."}},
		"blind":   {blind, true, []string{"not known", "permission denied for function"}},
		"fresh": {
			fresh, true, []string{
				"Starting", "The stream from Postgres is being opened", "Nothing has been published",
				"The server has not been asked about the slot yet.",
			},
		},
		"snapshot": {snapshot, true, []string{"Taking the snapshot", "Snapshot: 1,000 of 9,000 rows"}},
		"raw": {
			raw, true, []string{
				"Reconnecting", "Postgres refuses connections", "The error as reported", "See whether the server runs.",
			},
		},
		"letters": {
			letters, true, []string{
				"Event", "Reason", "Command", "2f1a", "bad headers, dead letter", "LSN 0/1", "(no id)",
				"too large, skipped", "order.created",
				"1 dead-lettered, 0 skipped", "cdc-outbox dead-letter show 2f1a",
				"Rows could not be published", "cdc-outbox dead-letter list",
			},
		},
		"paused": {paused, true, []string{"Paused", "Paused by ann", "cdc-outbox resume", "waits here"}},
		"needs operator": {
			stays, true, []string{
				"Needs an operator", "Publication \"orders\" does not exist", "Create it.", "broken here",
			},
		},
		"monitor": {
			slots{
				Slots:  []slotmonitor.Slot{worst, well},
				Alerts: []firingAlert{fires("slot_inactive", alert.Critical, "No process.", worst.Cause)},
			}, false, []string{
				"Critical", "No process reads slot \"debezium\"",
				"Slot debezium: No process has read the slot since", "pg_drop_replication_slot",
				"pid 77", "Nothing to send", "48 MiB of 64 MiB", "Time left",
			},
		},
		"polling": {
			polls, true, []string{
				"Polling", "public.outbox", "17 rows", "not published yet", "2 dead-lettered and 0 skipped",
				"Tables and workers", "no, it asks at polling.interval", "4,711",
			},
		},
		"lane": {pollStands, true, []string{"Halted", "Headers are not an object.", "e-7", "Fix it."}},
		"no slots": {
			slots{Slots: []slotmonitor.Slot{}},
			false,
			[]string{"Watching", "There is no logical replication slot to watch"},
		},
		"no server": {
			slots{Slots: []slotmonitor.Slot{well}, Error: "connection refused"},
			false,
			[]string{"No answer", "Postgres does not answer: connection refused"},
		},
	}
}

//go:embed testdata/audit.js
var audit string

func requireClean(t *testing.T, p *process, tab *browser.Tab) {
	t.Helper()
	require.Empty(t, tab.Problems())
	for _, url := range tab.Requests() {
		require.True(t, strings.HasPrefix(url, p.URL+"/"), "it asks %s", url)
	}
}

// Every state, as a desktop and a phone show it, in light and dark: the words are there, nothing must be scrolled
// sideways, all text can be read, and everything has a name for who cannot see it.
func TestThePageInEveryState(t *testing.T) {
	b := browser.Start(t)
	for name, state := range states() {
		t.Run(name, func(t *testing.T) {
			p := start(t, state.relay, state.status)
			tab := b.Open(t, p.URL, browser.Look{})
			tab.Await(time.Minute, `document.querySelector('#fresh').classList.contains('live')`)
			for _, w := range state.words {
				tab.Await(time.Minute, fmt.Sprintf(`document.body.innerText.includes(%q)`, w))
			}
			for _, look := range []browser.Look{
				{},
				{Dark: true},
				{Width: 360, Height: 740, Phone: true},
				{Width: 360, Height: 740, Phone: true, Dark: true},
			} {
				tab.Show(look)
				require.Empty(t, browser.Eval[[]string](tab, audit), "%+v", look)
				if dir := os.Getenv("CDC_OUTBOX_TEST_SHOTS"); dir != "" {
					tab.Screenshot(filepath.Join(dir, fmt.Sprintf("%s-%d-%v.png", name, look.Width, look.Dark)))
				}
			}
			requireClean(t, p, tab)
		})
	}
}

// Whatever a row or a server calls something is text.
func TestHostileNamesAreText(t *testing.T) {
	const hostile = `<img src=x onerror="alert(document.domain)">'"&lt;script>alert(1)</script>`
	b := browser.Start(t)
	for name, state := range states() {
		if name == "no slots" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(state.status)
			require.NoError(t, err)
			var status any
			require.NoError(t, json.Unmarshal(body, &status))
			p := start(t, state.relay, poisoned(status, hostile))
			for _, look := range []browser.Look{{}, {Width: 360, Height: 740, Phone: true}} {
				tab := b.Open(t, p.URL, look)
				tab.Await(time.Minute, `document.querySelector('#fresh').classList.contains('live')`)
				tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('main').textContent.includes(%q)`,
					hostile))
				require.Zero(t, browser.Eval[int](tab, `document.querySelectorAll('img[src="x"], body script').length`))
				require.Empty(t, browser.Eval[[]string](tab, audit))
				requireClean(t, p, tab)
			}
		})
	}
}

// poisoned appends the text to every string except the strings that the page compares.
func poisoned(v any, hostile string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch {
			case k == "since" || k == "at" || k == "sampled_at" || k == "level" || k == "runbook":
			case k == "name" && v["since"] != nil: // of a state
			case k == "code" || k == "kind" || k == "source" || k == "wal_status":
			default:
				v[k] = poisoned(inner, hostile)
			}
		}
	case []any:
		for i := range v {
			v[i] = poisoned(v[i], hostile)
		}
	case string:
		return v + hostile
	}
	return v
}

// TestNothingIsSaidToBeConfirmedUnread: a process that does not read the slot knows of nothing that waits in it.
//
// Bug (monitor): The tile and `status` said that all was confirmed while Postgres was away, on a standby, and beside a
// slot that was dropped. Cost: a backlog that looked like none.
func TestNothingIsSaidToBeConfirmedUnread(t *testing.T) {
	b := browser.Start(t)
	for name, want := range map[string]string{
		"standby": "not known", "raw": "not known", "fresh": "not known", "needs operator": "not known",
		"streaming": "all is confirmed",
	} {
		status := streaming()
		if s, ok := states()[name]; ok {
			status = s.status.(report)
		}
		status.OldestUnconfirmedSeconds = 0
		tab := b.Open(t, start(t, true, status).URL, browser.Look{})
		tab.Await(time.Minute, fmt.Sprintf(`[...document.querySelectorAll('#tiles > *')].some((tile) =>
			/oldest unconfirmed/i.test(tile.textContent) && tile.textContent.includes(%q))`, want))
	}
}

func TestChartsShowTheFiguresAndSayThem(t *testing.T) {
	p := start(t, true, streaming())
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelector('#chart-rate .plot')?.ariaLabel?.match(/events per second `+
		`(9\d|1\d\d)(\.\d+)?\/s, between/)`)
	tab.Await(time.Minute, `document.querySelector('#chart-latency .plot').ariaLabel.includes('p99 9.82 ms')`)
	tab.Await(time.Minute, `document.querySelector('#chart-wal .plot').ariaLabel.includes('retained 48 MiB')`)
	for _, id := range []string{"window", "oldest"} { // a tile says as much
		require.False(t, browser.Eval[bool](tab, `document.querySelector('#chart-`+id+`').checkVisibility()`))
	}
	require.Equal(t, 5, browser.Eval[int](tab, `document.querySelectorAll('#tiles .spark path[d^="M"]').length`))
	require.InDelta(t, 120, browser.Eval[float64](tab, `document.querySelector('#tiles').offsetHeight`), 12)
	p.say(states()["stuck"].status)
	for _, id := range []string{"rate", "latency", "wal", "window", "oldest"} {
		// Lines are where there is colour.
		tab.Await(time.Minute, fmt.Sprintf(`(() => {
			const c = document.querySelector('#chart-%s canvas');
			const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
			copy.drawImage(c, 0, 0);
			const d = copy.getImageData(0, 0, c.width, c.height).data;
			let n = 0;
			for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && Math.max(d[i], d[i + 1], d[i + 2]) - `+
			`Math.min(d[i], d[i + 1], d[i + 2]) > 90) n++;
			return n > 20;
		})()`, id))
	}
	requireClean(t, p, tab)
}

func TestAProcessThatDoesNotAnswerIsSaidLoudly(t *testing.T) {
	p := start(t, true, streaming())
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelector('#fresh').classList.contains('live')`)
	p.away.Store(true)
	tab.Await(time.Minute, `!document.querySelector('#stale').hidden && document.body.classList.contains('old')`)
	require.Regexp(t, `No answer for \d+ s\. The process does not answer: what you see is from `+
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.`, tab.Text("#stale"))
	require.Equal(t, "No answer", tab.Text("#fresh-text"))
	p.away.Store(false)
	tab.Await(time.Minute, `document.querySelector('#stale').hidden && !document.body.classList.contains('old')`)
}

func TestAHiddenTabAsksNothing(t *testing.T) {
	p := start(t, true, streaming())
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelector('#fresh').classList.contains('live')`)
	hide := func(on bool) {
		browser.Eval[bool](tab, fmt.Sprintf(`Object.defineProperty(document, 'hidden', {value: %v, configurable: `+
			`true}), document.dispatchEvent(new Event('visibilitychange'))`, on))
	}
	hide(true)
	time.Sleep(3 * time.Second) //waits:ok a browser has no other clock; a question that was under way
	asked := p.asked.Load()
	time.Sleep(4 * time.Second) //waits:ok nothing happens, for as long as four questions
	require.Equal(t, asked, p.asked.Load())
	hide(false)
	tab.Await(time.Minute,
		`document.querySelector('#stale').hidden && document.querySelector('#fresh').classList.contains('live')`)
	require.Eventually(t, func() bool { return p.asked.Load() > asked+1 }, 30*time.Second, 50*time.Millisecond)
	require.True(t, browser.Eval[bool](tab, `document.querySelector('#stale').hidden`))
}

// A screen reader announces another cause once, but not each second in which the figures change.
func TestACauseIsAnnouncedOnce(t *testing.T) {
	st := states()["stuck"].status.(report)
	p := start(t, true, st)
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelector('#announce').textContent.includes('refuses connections')`)
	browser.Eval[bool](tab, `window.said = 0, new MutationObserver(() => `+
		`window.said++).observe(document.querySelector('#announce'), {childList: true, characterData: true, subtree: `+
		`true}), true`)
	st.Cause.Sentence = "broker b:9092: connection refused, again."
	p.say(st)
	tab.Await(time.Minute, `document.querySelector('#cause-detail').textContent.includes('again')`)
	require.Zero(t, browser.Eval[int](tab, `window.said`))
	p.say(states()["halted"].status)
	tab.Await(time.Minute, `document.querySelector('#announce').textContent.includes('Halted')`)
	require.Equal(t, 1, browser.Eval[int](tab, `window.said`))
}

func TestCommandsAreCopiedWithTheKeyboard(t *testing.T) {
	p := start(t, true, states()["halted"].status)
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `!document.querySelector('#remedy').hidden`)
	focused := func() string { return browser.Eval[string](tab, `document.activeElement.ariaLabel ?? ''`) }
	for n, command := range []string{"SELECT 1;\nSELECT 2;", "cdc-outbox dead-letter retry"} {
		label := fmt.Sprintf("Copy command %d", n+1)
		for range 4 {
			if tab.Do(chromedp.KeyEvent("\t")); focused() == label {
				break
			}
		}
		require.Equal(t, label, focused())
		require.Equal(t, command, browser.Eval[string](tab,
			`document.activeElement.previousElementSibling.textContent`))
		// It is there for two seconds, in which a slow browser may not be asked.
		browser.Eval[bool](tab, `window.copied = '', new MutationObserver(() => `+
			`window.copied += document.activeElement.textContent).observe(document.body, {childList: true, `+
			`characterData: true, subtree: true}), true`)
		tab.Do(chromedp.KeyEvent("\r"))
		tab.Await(time.Minute, `/Copied|Selected/.test(window.copied)`)
		require.Equal(t, label, focused(), "the focus stays while the page is written again")
		tab.Await(time.Minute, `!/Copied|Selected/.test(document.body.innerText)`)
		require.Equal(t, label, focused())
	}
}
