package page

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/browser"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m, browser.End) }

func get(t *testing.T, p *Page, method, url string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(method, url, nil))
	return w
}

func TestEverythingIsServedUnderItsType(t *testing.T) {
	p := New(Config{Slots: func() []Slot { return nil }})
	served := 0
	require.NoError(t, fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		w := get(t, p, "GET", "/"+name)
		if d.IsDir() {
			require.NotEqual(t, 200, w.Code, name)
			return nil
		}
		served++
		require.Equal(t, 200, w.Code, name)
		want, ok := types[path.Ext(name)]
		require.True(t, ok, name)
		require.Equal(t, want, w.Header().Get("Content-Type"), name)
		return nil
	}))
	require.Greater(t, served, 8)
	w := get(t, p, "GET", "/")
	require.Equal(t, 200, w.Code)
	require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
	require.NotContains(t, policy, "unsafe")
	for _, bad := range []string{
		"/assets/", "/assets/../page.go", "/assets/%2e%2e/page.go", "/assets//index.html", "/index.html",
		"/assets/nothing.js",
	} {
		require.NotEqual(t, 200, get(t, p, "GET", "http://x"+bad).Code, bad)
	}
	for _, url := range []string{"/", "/history", "/assets/page.css"} {
		require.Equal(t, 200, get(t, p, "HEAD", url).Code)
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			require.Equal(t, 405, get(t, p, method, url).Code, method)
		}
	}
}

func TestTheRunbookIsServedUnderThePolicy(t *testing.T) {
	none := New(Config{Slots: func() []Slot { return nil }})
	require.Equal(t, 404, get(t, none, "GET", "/runbook/").Code)
	book := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("what to do")) }
	p := New(Config{Slots: func() []Slot { return nil }, Runbook: http.HandlerFunc(book)})
	w := get(t, p, "GET", "/runbook/")
	require.Equal(t, "what to do", w.Body.String())
	require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
	require.Equal(t, 200, get(t, p, "HEAD", "/runbook/").Code)
	require.Equal(t, 404, get(t, p, "GET", "/runbook/other").Code)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		require.Equal(t, 405, get(t, p, method, "/runbook/").Code, method)
	}
	require.Equal(t, "/runbook/", get(t, p, "GET", "/runbook").Header().Get("Location"))
}

// What the browser would refuse: markup with code or styles in it, and anything from elsewhere.
func TestThePageKeepsItsOwnPolicy(t *testing.T) {
	html := string(read1(t, "index.html"))
	require.NotRegexp(t, `(?i)\son\w+=`, html)
	require.NotRegexp(t, `(?i)\sstyle=|<style|javascript:`, html)
	require.NotRegexp(t, `<script[^>]*>[^<]`, html)
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		require.NotContains(t, m[1], "//", "everything is this process's own")
		require.False(t, strings.HasPrefix(m[1], "/"), "%s: a proxy may serve the page under a path", m[1])
	}
	for _, name := range []string{
		"main.js", "alerts.js", "badrows.js", "cause.js", "relay.js", "slots.js", "slottable.js", "charts.js",
		"data.js", "dom.js", "format.js", "headline.js", "path.js", "progress.js", "remedy.js", "spans.js", "spark.js",
		"tabstate.js", "tiles.js", "topics.js",
	} {
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`,
			string(read1(t, name)), name)
	}
}

// The vendored files are the files that were reviewed; `make uplot` fetches them again.
func TestVendoredFilesAreWhatWasRecorded(t *testing.T) {
	sums := strings.Fields(string(read1(t, "uplot/SHA256SUMS")))
	require.Len(t, sums, 2*3)
	for i := 0; i < len(sums); i += 2 {
		require.Equal(t, sums[i], fmt.Sprintf("%x", sha256.Sum256(read1(t, "uplot/"+sums[i+1]))), sums[i+1])
	}
	require.Contains(t, string(read1(t, "uplot/LICENSE")), "MIT")
}

func read1(t *testing.T, name string) []byte {
	t.Helper()
	b, err := embedded.ReadFile("assets/" + name)
	require.NoError(t, err)
	return b
}

func TestRunSamplesEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published uint64
		p := New(Config{
			Relay:        func() Relay { published += 10; return Relay{Published: published} },
			Slots:        func() []Slot { return []Slot{{Name: "s", SampledAt: start, Retained: 5}} },
			SlotInterval: 5 * time.Second, WarnRetained: 1 << 30, CriticalRetained: 10 << 30, Version: "v1",
		})
		require.Equal(t, 200, get(t, p, "GET", "/history").Code, "before the first sample")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		var a struct {
			answer
			Version    string
			Every      int64 `json:"every_ms"`
			Keeps      int64 `json:"keeps_ms"`
			SlotsEvery int64 `json:"slots_every_ms"`
			Warn       int64 `json:"warn_retained_bytes"`
			Critical   int64 `json:"critical_retained_bytes"`
		}
		w := get(t, p, "GET", "/history?since=")
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), w.Body)
		require.Len(t, a.Relay.At, 3)
		require.InDelta(t, 10, *a.Relay.Rate[2], 1e-6)
		require.Equal(t, []int64{5}, a.Slots["s"].Retained)
		require.Equal(t, []int64{1000, 900_000, 5000, 1 << 30, 10 << 30}, []int64{
			a.Every, a.Keeps, a.SlotsEvery, a.Warn, a.Critical,
		})
		stop()
		require.NoError(t, <-done)
	})
}
