// Package browser drives a headless Chromium in tests of the page: what it shows, what it asks for, and what it
// complains about.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// patience is for one answer of the browser.
const patience = 90 * time.Second

// find looks for the browser: CDC_OUTBOX_TEST_BROWSER, otherwise what Debian, Google and Homebrew call it.
func find() string {
	for _, name := range []string{
		os.Getenv("CDC_OUTBOX_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// Browser is a window of the process's Chromium, with storage of its own.
type Browser struct{ ctx context.Context }

// running is the Chromium of this process: to start one takes longer than most tests of the page.
var running struct {
	sync.Mutex
	ctx context.Context
	end func() error
}

// Start gives the test a browser, which ends with it. `make browser` sets the variable that it asks for: a browser
// takes more of a machine than all servers of the other tests. Where there is none the test is left out, but in CI it
// fails: a check that quietly does nothing is worse than none. TestMain calls End after the tests.
func Start(t testing.TB) *Browser {
	t.Helper()
	if os.Getenv("CDC_OUTBOX_TEST_BROWSER") == "" {
		t.Skip("starts a browser: make browser")
	}
	path := find()
	if path == "" {
		const message = "no Chromium found: install the package chromium, or set CDC_OUTBOX_TEST_BROWSER"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	running.Lock()
	defer running.Unlock()
	if running.ctx == nil {
		if err := start(path); err != nil {
			t.Fatalf("start %s: %v", path, err)
		}
	}
	ctx, end := chromedp.NewContext(running.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // gracefully, and waits
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	return &Browser{ctx}
}

func start(path string) error {
	profile, err := scratch.NewDir("browser")
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.WSURLReadTimeout(2*time.Minute), chromedp.UserDataDir(profile.Path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to sandbox for root
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocator)
	running.ctx, running.end = ctx, func() error {
		_ = chromedp.Cancel(ctx) // gracefully, and waits
		endBrowser()
		end()
		return profile.Remove()
	}
	if err := chromedp.Do(ctx); err != nil {
		running.ctx = nil
		return errors.Join(err, running.end())
	}
	return nil
}

// End ends the process's Chromium, after all tests.
func End() error {
	running.Lock()
	defer running.Unlock()
	if running.ctx == nil {
		return nil
	}
	running.ctx = nil
	return running.end()
}

// Look is how a tab shows a page. The zero value is a desktop's, in light colours.
type Look struct {
	Width, Height int64 // default 1280 × 900
	Dark          bool
	Phone         bool // touch, and two device pixels per pixel
}

// Tab is an open page. What went wrong in it is collected from before its first request.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// Open opens the page in a tab of its own, which ends with the test.
func (b *Browser) Open(t testing.TB, url string, look Look) *Tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.event); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	call(tab, log.Enable, cdp.Empty{})
	call(tab, network.Enable, network.EnableParams{})
	tab.Show(look)
	tab.Do(chromedp.Navigate(url))
	return tab
}

// call runs one command of the browser's protocol.
func call[P, R any](t *Tab, command cdp.Command[P, R], params P) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		t.t.Fatalf("browser: %v", err)
	}
}

// Show changes how the tab shows its page.
func (t *Tab) Show(look Look) {
	t.t.Helper()
	metrics := emulation.SetDeviceMetricsOverrideParams{
		Width: look.Width, Height: look.Height, DeviceScaleFactor: 1, Mobile: look.Phone,
	}
	if look.Width == 0 {
		metrics.Width, metrics.Height = 1280, 900
	}
	if look.Phone {
		metrics.DeviceScaleFactor = 2
	}
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	call(t, emulation.SetDeviceMetricsOverride, metrics)
	call(t, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: look.Phone})
	call(t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// event runs where the browser's messages are read, so it must not ask the browser anything.
func (t *Tab) event(ev any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, ev.Request.URL)
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, fmt.Sprintf("exception: %+v", ev.ExceptionDetails))
		if e := ev.ExceptionDetails.Exception; e != nil {
			t.problems[len(t.problems)-1] = "exception: " + e.Description
		}
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeLog || ev.Type == runtime.ConsoleAPICalledTypeDebug ||
			ev.Type == runtime.ConsoleAPICalledTypeInfo {
			return
		}
		var words []string
		for _, arg := range ev.Args {
			words = append(words, string(arg.Value)+arg.Description)
		}
		t.problems = append(t.problems, "console: "+strings.Join(words, " "))
	case *log.EventEntryAdded: // violations of the policy and failed requests are here
		t.problems = append(t.problems, fmt.Sprintf("%s: %s %s", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL))
	case *page.EventJavascriptDialogOpening: // it stays open, and whatever the test asks next fails
		t.problems = append(t.problems, "dialog: "+ev.Message)
	}
}

// Problems are errors and warnings of scripts, violated policies, failed requests and dialogs, since the last call.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.problems
	t.problems = nil
	return found
}

// Requests are the URLs that were asked for.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.requests...)
}

// Do runs actions, within the patience for one answer.
func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.t.Fatalf("browser: %v", err)
	}
}

// Eval evaluates JavaScript in the tab, not bound by the page's policy, and returns what it comes to, or the promise's
// value.
func Eval[T any](t *Tab, script string) T {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.t.Fatalf("browser: %v in %s", err, script)
	}
	return v
}

// Text is what the element shows, as a person reads it.
func (t *Tab) Text(selector string) string {
	t.t.Helper()
	return Eval[string](t, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// Await waits until the JavaScript expression is true.
func (t *Tab) Await(limit time.Duration, expression string) {
	t.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if Eval[bool](t, "Boolean("+expression+")") {
			return
		}
		if time.Now().After(end) {
			t.t.Fatalf("after %v it is still not so: %s\nthe page says:\n%s", limit, expression, t.Text("body"))
		}
	}
}

// Screenshot writes the whole page as a PNG.
func (t *Tab) Screenshot(path string) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.t.Fatalf("browser: %v", err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		t.t.Fatal(err)
	}
}
