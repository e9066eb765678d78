package statusview

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// pasted is a command: it is never wrapped.
const pasted = `cdc-outbox pass --event 0190d4a6-21d2-7c5e-9d0e-5a8f4a3f9e77 --reason "ticket 4711, as agreed"`

// pollingStates are answers of a relay that polls, with a sentence that two or three of their fields have.
func pollingStates() map[string]struct {
	st      polling.Status
	unasked error
	once    string
} {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const refused = "the server at db.internal.example.com:5432 refuses connections: connection refused"
	away := relay.State{
		Name: relay.Reconnecting, Reason: "Postgres: " + refused, Since: since, Next: "Start it.",
		Commands: []string{pasted},
	}
	wait := func(kind, reason string) []fault.Wait {
		return []fault.Wait{{Kind: kind, Object: "Postgres", Reason: reason, Next: "Start it.", Since: since}}
	}
	const large = "A record of 2560168 bytes is larger than the 1048576 bytes that topic order.events takes."
	return map[string]struct {
		st      polling.Status
		unasked error
		once    string
	}{
		"well": {st: polling.Status{
			State: relay.State{Name: relay.Polling, Since: since}, Ready: true, Listening: true,
			Tables:  []string{"public.outbox", "public.a_second_outbox_with_a_long_name", "billing.outbox_messages"},
			Backlog: &relay.Backlog{Rows: 3}, Workers: 4,
		}, once: "3 rows"},
		"Postgres away": {st: polling.Status{
			State: away, ReadyReason: "reconnecting: Postgres: " + refused,
			Waits: wait("postgres_unreachable", refused),
		}, unasked: errors.New(refused), once: "refuses connections"},
		"Postgres away for this command only": {st: polling.Status{
			State: relay.State{Name: relay.Polling, Since: since}, Ready: true,
		}, unasked: errors.New(refused), once: "refuses connections"},
		"halted": {st: polling.Status{
			State: relay.State{Name: relay.Halted, Reason: large, Since: since}, ReadyReason: "halted: " + large,
			Halted: []*relay.HaltedRow{{
				EventID: "7", Position: "12", Table: "public.outbox", Message: large, Since: since,
				Next:     "Pass it, or raise the limit of the topic and of what its consumers fetch.",
				Commands: []string{pasted},
			}},
		}, once: "larger than"},
		"not running": {st: polling.Status{State: relay.State{
			Name: relay.NotRunning, Since: since, Reason: "nothing answers at http://127.0.0.1:9464/status",
		}, Backlog: &relay.Backlog{}}, once: "nothing answers"},
	}
}

// TestPollingStatus: at each width a line fits, commands stay whole, and a sentence is said once.
//
// Bug (monitor): `status` of a relay that polls did not wrap at the terminal's width, nor did `status --why`, and the
// former said the reason of a halt or an outage up to four times. Cost: a remedy that was read past.
func TestPollingStatus(t *testing.T) {
	for name, c := range pollingStates() {
		t.Run(name, func(t *testing.T) {
			var whole strings.Builder
			require.NoError(t, WritePolling(&whole, c.st, "http://127.0.0.1:9464/status", c.unasked, console.Style{}))
			require.Equal(t, 1, strings.Count(whole.String(), c.once), whole.String())
			for _, width := range []int{60, 80, 132} {
				var b, why strings.Builder
				style := console.Style{Width: width}
				require.NoError(t, WritePolling(&b, c.st, "http://127.0.0.1:9464/status", c.unasked, style))
				require.Equal(t, strings.Count(whole.String(), pasted), strings.Count(b.String(), pasted))
				requireFits(t, b.String(), width)
				require.NoError(t, WriteCause(&why, service.PollingCauseOrNone(c.st), style))
				requireFits(t, why.String(), width)
			}
		})
	}
}

// TestCauseFitsTheTerminal: a cause with all that it may have.
func TestCauseFitsTheTerminal(t *testing.T) {
	var b strings.Builder
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, WriteCause(&b, alert.Cause{
		Code: "c", Sentence: strings.Repeat("It waits. ", 20), Object: strings.Repeat("table ", 20), Since: &since,
		Next: strings.Repeat("Look at it. ", 20), Commands: []string{pasted},
	}, console.Style{Width: 60}))
	requireFits(t, b.String(), 60)
	require.Contains(t, b.String(), pasted)
}

func requireFits(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.Contains(line, pasted) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
		}
	}
}
