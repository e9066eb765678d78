package page_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

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
	p := start(t, true, streaming())
	tab := browser.Start(t).Open(t, p.URL, browser.Look{})
	tab.Await(10*time.Second, `document.querySelector('#chart-rate .plot')?.ariaLabel?.includes('between')`)
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
		tab.Await(5*time.Second, `document.activeElement.ariaPressed === 'true'`)
		require.Eventually(t, func() bool { return asked(span) }, 5*time.Second, 50*time.Millisecond)
		tab.Await(5*time.Second, `document.querySelector('#chart-wal .plot').ariaLabel.includes('retained 48 MiB')`)
		require.Empty(t, browser.Eval[[]string](tab, audit))
	}
	requireClean(t, p, tab)
}
