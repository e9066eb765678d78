package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// img is what a row calls itself that wants to be markup.
const img = `<img src=x onerror="alert(1)">`

// TestThePageShowsAProcessAtWork: real rows, a broker that goes and comes back, and a browser that looks on.
// CDC_OUTBOX_TEST_SHOTS names a directory for pictures.
func TestThePageShowsAProcessAtWork(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	db := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{"max_slot_wal_keep_size": "256MB"}})
	p, err := port.Free()
	require.NoError(t, err)
	options := fakebroker.Options{Ports: []int{p}, Dir: t.TempDir()}
	broker, err := fakebroker.Start(options)
	require.NoError(t, err)
	t.Cleanup(func() { broker.Close() })
	for _, topic := range []string{"orders.events", "payments.events", "cdc-outbox.dead-letter"} {
		require.NoError(t, broker.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 2}))
	}
	db.Exec(t, `CREATE TABLE outbox (id text PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
		aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now())`)
	env := append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+broker.Addrs()[0], "CDC_OUTBOX_MONITOR_INTERVAL=200ms",
		"CDC_OUTBOX_ROUTER_ON_BAD_ROW=dead_letter", "CDC_OUTBOX_MONITOR_WARN_RETAINED=24MiB")
	r := start(t, env)
	r.awaitReady(http.StatusOK)
	tab := b.Open(t, r.url, browser.Look{})

	stop := write(t, db)
	tab.Await(time.Minute, `Number(document.querySelector('#chart-rate .value')?.textContent) > 0`)
	tab.Await(time.Minute,
		`/events per second [\d.]+\/s, between/.test(document.querySelector('#chart-rate .plot').ariaLabel)`)
	tab.Await(time.Minute, `/p99 [\d.]+ m?s/.test(document.querySelector('#chart-latency .plot').ariaLabel)`)
	tab.Await(time.Minute, `document.querySelector('#cause-sentence').textContent.startsWith('Keeping up')`)
	shot(tab, "healthy")

	// A bad row, whose id and topic want to be more than text.
	db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type)
		VALUES ('`+img+`', '`+img+`', '1', 'bad')`)
	tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('#bad-rows').textContent.includes(%q)`, img))
	tab.Await(time.Minute, `document.querySelector('#alerts').textContent.includes('dead_letters')`)

	// What the page shows is what /status says.
	stop()
	c, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	var rows uint64
	require.NoError(t, c.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&rows))
	require.NoError(t, c.Close(t.Context()))
	var st service.Status
	require.Eventually(t, func() bool {
		_, body := r.get("/status")
		st = service.Status{}
		require.NoError(t, json.Unmarshal([]byte(body), &st))
		return st.Counts.Published == rows && st.Window.Records == 0
	}, time.Minute, 50*time.Millisecond)
	for selector, want := range map[string]string{
		"#chart-rate .note":            grouped(st.Counts.Published) + " since the process started.",
		"#chart-window .unit":          "of 100,000 records, 0 B of 32 MiB",
		"#topics li .count":            grouped(st.Topics[0].Published),
		"#topics li .name":             st.Topics[0].Topic,
		"#bad-rows [data-label=Event]": img,
		"#subject b":                   db.Slot,
	} {
		tab.Await(time.Minute, fmt.Sprintf(`document.querySelector(%q).textContent === %q`, selector, want))
	}
	tab.Await(time.Minute, `fetch('status').then((r) => r.json()).then((s) => `+
		`document.querySelector('#facts').textContent.includes('Confirmed' + s.confirmed_lsn))`)
	tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('#cause-sentence').textContent === %q`,
		strings.TrimSuffix(st.Cause.Sentence, ".")))

	// The broker goes away: within 15 s the page says so in words, and what the slot holds back becomes an alert.
	broker.Close()
	stop = write(t, db)
	began := time.Now()
	tab.Await(30*time.Second, // twice the time, as the machine has the browser and other tests to run
		fmt.Sprintf(`document.querySelector('#cause-sentence').textContent.includes('127.0.0.1:%d')`, p))
	t.Logf("the page names the broker %v after it went", time.Since(began).Round(100*time.Millisecond))
	tab.Await(time.Minute, `fetch('status').then((r) => r.json()).then((s) => `+
		`['#cause-detail', '#cause-raw-text', '#cause-sentence'].some((id) => `+
		`document.querySelector(id).textContent.replace(/\.$/, '') === s.cause.sentence.replace(/\.$/, '')) && `+
		`document.querySelector('#remedy-text').textContent === s.cause.next)`)
	require.Equal(t, "Waiting", tab.Text("#state"))
	db.Exec(t, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 40)`)
	tab.Await(time.Minute, `document.querySelector('#alerts').textContent.includes('slot_retained_wal') && `+
		`document.querySelector('#alerts a').href.includes('runbook.md#')`)
	for _, look := range []browser.Look{{Dark: true}, {Width: 360, Height: 740, Phone: true}} {
		tab.Show(look)
		require.LessOrEqual(t, browser.Eval[int](tab, `document.documentElement.scrollWidth`),
			browser.Eval[int](tab, `innerWidth`))
		shot(tab, fmt.Sprintf("stuck-%d", look.Width))
	}
	tab.Show(browser.Look{})

	// It comes back, and so does everything else.
	broker, err = fakebroker.Start(options)
	require.NoError(t, err)
	stop()
	tab.Await(time.Minute, `document.querySelector('#cause').dataset.tone === 'ok'`)
	// restart_lsn moves at a record of the running transactions that is confirmed, which a server at rest does not
	// write.
	require.Eventually(t, func() bool {
		db.Exec(t, insertOrder)
		db.Exec(t, `CHECKPOINT`)
		return !strings.Contains(tab.Text("#alerts"), "slot_retained_wal")
	}, time.Minute, time.Second)

	require.Empty(t, tab.Problems())
	for _, url := range tab.Requests() {
		require.True(t, strings.HasPrefix(url, r.url+"/"), "it asks %s", url)
	}

	// The process ends, and the page says that.
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	tab.Await(time.Minute, `!document.querySelector('#stale').hidden`)

	// The slot's other reader: the command monitor.
	m := startCommand(t, nil, "monitor", "--postgres-dsn="+db.DSN, "--http-listen=127.0.0.1:0",
		"--monitor-interval=200ms")
	tab = b.Open(t, m.url, browser.Look{})
	tab.Await(time.Minute, fmt.Sprintf(`document.querySelector('#slots .name')?.textContent === %q`, db.Slot))
	require.Equal(t, "none", tab.Text(`#slots [data-label="Reader"]`))
	browser.Eval[bool](tab, `document.querySelector('#slots .name').click(), true`)
	tab.Await(time.Minute,
		`/retained [\d.,]+ [KM]?i?B, between/.test(document.querySelector('#slots .plot')?.ariaLabel)`)
	shot(tab, "monitor")
	require.Empty(t, tab.Problems())
}

// write inserts rows, about two hundred a second, until the returned function is called.
func write(t *testing.T, db *testkit.Database) (stop func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	c, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	go func() {
		defer close(ended)
		defer c.Close(t.Context())
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond): //waits:ok the rate of the load
			}
			_, err := c.Exec(t.Context(), `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
				SELECT (ARRAY['orders', 'orders', 'payments'])[1 + g % 3], g::text, 'happened', '{}'
					FROM generate_series(1, 4) g`)
			if err != nil {
				t.Errorf("insert: %v", err)
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(done); <-ended })
	t.Cleanup(stop)
	return stop
}

func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func shot(tab *browser.Tab, name string) {
	if dir := os.Getenv("CDC_OUTBOX_TEST_SHOTS"); dir != "" {
		tab.Screenshot(filepath.Join(dir, name+".png"))
	}
}

// A relay that polls has no slot, and the page shows what it has instead.
func TestThePageOfARelayThatPolls(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	bed := newBed(t, testkit.Postgres(t), "orders.events")
	env := []string{"CDC_OUTBOX_SOURCE=polling"}
	for _, e := range bed.env {
		// it has neither
		if !strings.HasPrefix(e, "CDC_OUTBOX_POSTGRES_SLOT=") &&
			!strings.HasPrefix(e, "CDC_OUTBOX_POSTGRES_PUBLICATION=") {
			env = append(env, e)
		}
	}
	made := invoke(t, env, "setup", "--table")
	require.Equal(t, 0, made.code, made.all())
	r := start(t, env)
	r.awaitReady(http.StatusOK)
	tab := b.Open(t, r.url, browser.Look{})
	for range 5 {
		bed.db.Exec(t, insertOrder)
	}
	tab.Await(time.Minute,
		`document.querySelector('#chart-rate .note')?.textContent === '5 since the process started.'`)
	tab.Await(time.Minute, `document.querySelector('#topics').textContent === 'orders.events5'`)
	tab.Await(time.Minute, `document.querySelector('#chart-oldest .unit').textContent === 'all rows are published'`)
	tab.Await(time.Minute, `/age [\d.]+ m?s, between/.test(document.querySelector('#chart-oldest .plot').ariaLabel)`)
	require.Equal(t, "Polling", tab.Text("#state"))
	require.Equal(t, "public.outbox", tab.Text("#subject b"))
	shot(tab, "polling")
	require.NotContains(t, tab.Text("body"), canary)
	require.Empty(t, tab.Problems())
	asked := invoke(t, env, "status", "--json", "--http-listen="+strings.TrimPrefix(r.url, "http://"))
	require.Equal(t, 0, asked.code, asked.all())
	require.Contains(t, asked.stdout, `"name": "polling"`)
}
