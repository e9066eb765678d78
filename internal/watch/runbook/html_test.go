package runbook_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/docs"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/runbook"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

func served(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	runbook.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/runbook/", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	return w.Body.String()
}

// Every link that the process writes ends at a heading: of the alerts that it raises, and within the page.
func TestEveryLinkHasItsSection(t *testing.T) {
	html := served(t)
	sections := slices.Concat(slotmonitor.Rules(), diagnose.Rules(), diagnose.PollingRules())
	require.NotEmpty(t, sections)
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(html, -1) {
		sections = append(sections, m[1])
	}
	require.Greater(t, len(sections), 60)
	for _, s := range sections {
		require.Regexp(t, `<h[1-3] id="`+regexp.QuoteMeta(s)+`">`, html)
	}
}

// The process serves no other page of the documentation.
func TestLinksToOtherPagesLeadToThePublishedOnes(t *testing.T) {
	html := served(t)
	require.Contains(t, html, strings.TrimSuffix(runbook.Published, "runbook.md")+"monitor.md#the-forecast")
	for _, m := range regexp.MustCompile(`<a href="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		require.Regexp(t, `^(#|https://|\.\./$)`, m[1])
	}
}

// What a reader needs in an incident must not be lost between Markdown and HTML.
func TestListingsAndTablesAreWhole(t *testing.T) {
	html, source := served(t), string(docs.Runbook)
	require.Equal(t, len(regexp.MustCompile("(?m)^ *```").FindAllString(source, -1))/2, strings.Count(html, "<pre>"))
	require.Equal(t, strings.Count(source, "\n|---"), strings.Count(html, "<table>"))
	require.Equal(t, len(regexp.MustCompile(`(?m)^### `).FindAllString(source, -1)), strings.Count(html, "<h3 "))
	require.Contains(t, html, `ALTER SYSTEM SET max_slot_wal_keep_size = %L'`)
}

// The page's policy refuses scripts and styles in markup, so the HTML has none. Everything that it loads is found
// under any path of a proxy.
func TestHTMLKeepsThePolicy(t *testing.T) {
	html := served(t)
	require.NotRegexp(t, `(?i)<script|<style|\sstyle=|\son\w+=|javascript:`, html)
	require.NotContains(t, html, "raw HTML omitted")
	for _, m := range regexp.MustCompile(`(?:src="|<link [^>]*href=")([^"]*)"`).FindAllStringSubmatch(html, -1) {
		require.True(t, strings.HasPrefix(m[1], "../assets/"), m[1])
	}
}
