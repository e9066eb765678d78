package page_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
)

// The page keeps a gap where the process was away, and takes the closed minute for the open one.
func TestASeriesHasGapsAndClosesItsLastSample(t *testing.T) {
	tab := browser.Start(t).Open(t, start(t, true, streaming()).URL, browser.Look{})
	for parts, want := range map[string]string{
		`[{at: [0, 60000], v: [1, 2]}]`:                                   `[[0,60],[1,2]]`,
		`[{at: [0, 60000], v: [1, 2]}, {at: [60000, 120000], v: [5, 1]}]`: `[[0,60,120],[1,5,1]]`,
		`[{at: [0], v: [1]}, {at: [180000], v: [2]}]`:                     `[[0,0.001,180],[1,null,2]]`,
		`[{at: [600000], v: [1]}, {at: [60000], v: [2]}]`:                 `[[60],[2]]`, // the clock was set back
		`[{at: [0, 60000], v: [1, 2]}, {at: [86460000], v: [3]}]`:         `[[60,60.001,86460],[2,null,3]]`,
	} {
		got := call[string](tab, "data.js", `{ const s = new m.Series(['v']); for (const part of `+parts+
			`) s.append(part, 90, 86400); return JSON.stringify(s.columns); }`)
		require.Equal(t, want, got, parts)
	}
}

func TestTheChartsShowADayAndAMonth(t *testing.T) {
	p := start(t, true, streaming(), month)
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(time.Minute, `document.querySelector('#chart-rate .plot')?.ariaLabel?.includes('between')`)
	asked := func(span string) bool {
		for _, url := range tab.Requests() {
			if len(url) > len(p.URL) && fmt.Sprintf("%s/history?span=%s&since=", p.URL, span) == url {
				return true
			}
		}
		return false
	}
	require.False(t, asked("day"))
	for n, span := range []string{"day", "month"} {
		button := fmt.Sprintf(`document.querySelectorAll('#relay-charts .spans button')[%d]`, n+1)
		browser.Eval[bool](tab, button+`.focus(), true`)
		tab.Do(chromedp.KeyEvent("\r"))
		tab.Await(time.Minute, `document.activeElement.ariaPressed === 'true'`)
		require.Eventually(t, func() bool { return asked(span) }, 30*time.Second, 50*time.Millisecond)
		tab.Await(time.Minute, `document.querySelector('#chart-wal .plot').ariaLabel.includes('retained 48 MiB')`)
		require.Empty(t, browser.Eval[[]string](tab, audit))
		shoot(tab, span)
	}
	tab.Await(time.Minute, `document.querySelector('#charts-title').textContent === 'Last 30 d'`)
	requireClean(t, p, tab)
}

// shoot writes pictures to look at, where a directory for them is given.
func shoot(tab *browser.Tab, span string) {
	dir := os.Getenv("CDC_OUTBOX_TEST_SHOTS")
	if dir == "" {
		return
	}
	for _, look := range []browser.Look{
		{}, {Dark: true}, {Width: 360, Height: 740, Phone: true}, {Width: 360, Height: 740, Phone: true, Dark: true},
	} {
		tab.Show(look)
		time.Sleep(time.Second) //waits:ok the charts follow the width; off without a directory for pictures
		tab.Screenshot(filepath.Join(dir, fmt.Sprintf("charts-%s-%d-%v.png", span, look.Width, look.Dark)))
	}
	tab.Show(browser.Look{})
}

// month is the history of a relay that has run for a month: busy by day, with an outage of six hours a week ago and a
// restart ten minutes ago.
func month(p *page.Page) {
	const day = 24 * time.Hour
	now := time.Now()
	published, events := 0.0, uint64(0)
	sample := func(at time.Time, seconds float64) {
		ago := now.Sub(at)
		busy := 120 + 110*math.Sin(2*math.Pi*float64(at.Unix()%86400)/86400-math.Pi/2)
		r := page.Relay{Bounds: []float64{.001, .01, 30}, Records: int(busy / 10), Bytes: 4096, Oldest: .02}
		retained := int64(8<<20) + int64(busy*1e5)
		if away := ago < 7*day && ago > 7*day-6*time.Hour; away {
			r.Oldest, retained = (7*day - ago).Seconds(), retained+int64((7*day-ago).Seconds()*4e4)
		} else {
			published += busy * seconds
		}
		events = uint64(published)
		r.Published, r.Counts = events, []uint64{events / 2, events - events/200, events, events}
		p.Remember(at, &r, []page.Slot{{Name: "orders", SampledAt: at, Retained: retained, Unconfirmed: retained / 9}})
	}
	for at := now.Add(-30 * day); at.Before(now.Add(-15 * time.Minute)); at = at.Add(time.Minute) {
		sample(at, 60)
	}
	for at := now.Add(-15 * time.Minute); at.Before(now); at = at.Add(time.Second) {
		if ago := now.Sub(at); ago > 10*time.Minute || ago < 9*time.Minute {
			sample(at, 1)
		}
	}
}
