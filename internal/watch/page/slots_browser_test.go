package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
)

// fleet is a server with so many slots: one is lost, one has minutes left, one has no reader, and the others are well.
func fleet(n int) slots {
	all := make([]slotmonitor.Slot, n)
	for i := range all {
		s := *streaming().ReplicationSlot
		s.Name = fmt.Sprintf("service_%02d_outbox", i)
		s.RetainedBytes, s.SecondsToLimit, s.GrowthPerSecond = int64(i+1)<<17, nil, new(0.0)
		s.Cause = alert.Cause{Code: "idle", Sentence: "There is nothing to send: all that was committed is confirmed."}
		all[i] = s
	}
	since := time.Now().Add(-90 * time.Second)
	all[2].Level, all[2].Active = alert.Warn, false
	all[2].Cause = alert.Cause{Code: "no_consumer", Sentence: "No process reads the slot.", Since: &since}
	all[n/2].Level, all[n/2].WALStatus, all[n/2].RetainedBytes = alert.Critical, slotmonitor.WALLost, 0
	all[n/2].UnconfirmedBytes = 90 << 20
	all[n/2].Cause = alert.Cause{Code: "slot_lost", Sentence: "The slot is lost: max_slot_wal_keep_size."}
	all[n-1].Level, all[n-1].SecondsToLimit, all[n-1].GrowthPerSecond = alert.Critical, new(240.0), new(70e3)
	all[n-1].Cause = alert.Cause{
		Code: "open_transaction", Sentence: "Process 4711 has had a transaction open for 2 h.", Since: &since,
		Next: "End it.", Commands: []string{"SELECT pg_terminate_backend(4711);"},
	}
	return slots{Slots: all}
}

// Bug (monitor): The monitor's page showed a lost slot as "0 B of 64 MiB", with more unconfirmed than retained. Cost:
// nonsense where an operator looks first.
func TestFiftySlotsFitOnALaptop(t *testing.T) {
	p := start(t, false, fleet(50))
	tab := browser.Start(t).Open(t, p.URL, browser.Look{Width: 1440, Height: 900})
	tab.Await(time.Minute, `document.querySelectorAll('#slots tbody').length === 50`)
	bottom := browser.Eval[float64](tab, `document.querySelector('#slots').getBoundingClientRect().bottom`)
	require.LessOrEqual(t, bottom, 900.0, "the height of the screen")
	names := `[...document.querySelectorAll('#slots .name')].slice(0, 4).map((b) => b.textContent)`
	require.Equal(t, []string{
		"service_49_outbox", // can be saved
		"service_25_outbox", // is lost
		"service_02_outbox", // is not read
		"service_48_outbox", // holds back most
	}, browser.Eval[[]string](tab, names))
	lost := `document.querySelectorAll('#slots tbody')[1]`
	require.Equal(t, []string{"Lost", "removed", "–", "lost", "The slot is lost"}, browser.Eval[[]string](tab,
		`['State', 'Retained', 'Growth', 'Time left', 'Cause'].map((l) => `+lost+
			`.querySelector('[data-label="' + l + '"]').textContent)`))
	require.Equal(t, "4 min", tab.Text(`[data-label="Time left"]`))
	for _, look := range []browser.Look{
		{Width: 1440, Height: 900},
		{Width: 1440, Height: 900, Dark: true},
		{Width: 360, Height: 740, Phone: true},
		{Width: 360, Height: 740, Phone: true, Dark: true},
	} {
		tab.Show(look)
		require.Empty(t, browser.Eval[[]string](tab, audit), "%+v", look)
		if dir := os.Getenv("CDC_OUTBOX_TEST_SHOTS"); dir != "" {
			tab.Screenshot(filepath.Join(dir, fmt.Sprintf("fleet-%d-%v.png", look.Width, look.Dark)))
		}
	}
	requireClean(t, p, tab)
}

// Enter opens the row that has the focus, and the focus stays when the order changes.
func TestARowOpensWithTheKeyboard(t *testing.T) {
	f := fleet(8)
	p := start(t, false, f)
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelectorAll('#slots tbody').length === 8`)
	browser.Eval[bool](tab, `document.querySelector('#slots .name').focus(), true`)
	require.Equal(t, "service_07_outbox", browser.Eval[string](tab, `document.activeElement.textContent`))
	tab.Do(chromedp.KeyEvent("\r"))
	tab.Await(time.Minute, `document.activeElement.ariaExpanded === 'true'`)
	tab.Await(time.Minute, `document.querySelector('#slots .more:not([hidden])').innerText.includes('pg_terminate')`)
	require.Empty(t, browser.Eval[[]string](tab, audit))
	if dir := os.Getenv("CDC_OUTBOX_TEST_SHOTS"); dir != "" {
		browser.Eval[bool](tab, `document.querySelectorAll('#slots .name')[1].click(), true`)
		tab.Screenshot(filepath.Join(dir, "open.png"))
		tab.Show(browser.Look{Width: 360, Height: 740, Phone: true})
		tab.Screenshot(filepath.Join(dir, "open-360.png"))
		tab.Show(browser.Look{})
	}
	f.Slots[7].Level, f.Slots[7].SecondsToLimit = alert.OK, nil
	p.say(f)
	tab.Await(time.Minute, `document.querySelector('#slots .name').textContent !== 'service_07_outbox'`)
	require.Equal(t, "service_07_outbox", browser.Eval[string](tab, `document.activeElement.textContent`))
	tab.Do(chromedp.KeyEvent("\r"))
	tab.Await(time.Minute, `document.activeElement.ariaExpanded === 'false'`)
	requireClean(t, p, tab)
}
