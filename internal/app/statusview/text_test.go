package statusview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// TestASentenceIsSaidOnce: the alert, the state and /readyz have the same reason, and the remedy's commands stay whole.
//
// Bug (monitor): `status` said one sentence up to seven times, and did not wrap at the terminal's width. Cost: a
// remedy that was read past.
func TestASentenceIsSaidOnce(t *testing.T) {
	const why = `table public.outbox: It is not in publication "p". Its rows are not sent`
	since := time.Unix(0, 0).UTC()
	const command = `ALTER PUBLICATION "p" ADD TABLE "public"."outbox"; -- a command is pasted, so it is never wrapped`
	st := service.Status{Alerts: []service.FiringAlert{{FiringAlert: alert.FiringAlert{Alert: alert.Alert{
		Rule: diagnose.ConnectorStopped, Level: alert.Critical, Sentence: "The connector has stopped: " + why,
	}}}}}
	st.State = relay.State{
		Name: relay.NeedsOperator, Reason: why, Next: "Add it.", Commands: []string{command}, Since: since,
	}
	st.ReadyReason = "waits for an operator: " + why
	st.Cause = alert.Cause{
		Code: diagnose.NeedsOperator, Sentence: why + ".", Since: &since, Next: "Add it.", Commands: []string{command},
	}
	var b strings.Builder
	require.NoError(t, Write(&b, st, "here", console.Style{}))
	require.Equal(t, 1, strings.Count(b.String(), "Its rows are not sent"), b.String())
	require.Equal(t, 1, strings.Count(b.String(), command), b.String())
	b.Reset()
	require.NoError(t, Write(&b, st, "here", console.Style{Width: 60}))
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, command) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 60, line)
		}
	}
}
