package statusview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// WritePolling prints the status of a relay that polls. unasked is why the table could not be
// asked.
func WritePolling(w io.Writer, st polling.Status, source string, unasked error, style console.Style) error {
	var b strings.Builder
	all := pollingMatters(&st)
	outbox := block{title: "outbox " + fault.Printable(strings.Join(st.Tables, ", "))}
	outbox.line("not published", "%s", backlogRows(st.Backlog, unasked, all))
	outbox.write(&b, style)
	relayed := block{title: "connector " + source}
	relayed.line("state", "%s", stateText(st.State, all, false))
	if st.State.Name != relay.NotRunning {
		relayed.line("ready", "%s", readyText(st.Ready, st.ReadyReason, st.State.Reason, all))
		relayed.line("workers", "%d, notifications %s", st.Workers,
			map[bool]string{true: "arrive", false: "are not listened for, or do not arrive"}[st.Listening])
		relayed.line("in flight", "%d of %d records, %s of %s", st.Window.Records, st.Window.MaxRecords,
			human.Bytes(float64(st.Window.Bytes)), human.Bytes(float64(st.Window.MaxBytes)))
		relayed.line("published", "%d since it started, %d skipped, %d dead letters", st.Counts.Published,
			st.Counts.Skipped, st.Counts.DeadLettered)
	}
	relayed.write(&b, style)
	all.write(&b, st.State.Name, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// pollingMatters are the halted rows, the state's own reason, and the waits that neither has said.
func pollingMatters(st *polling.Status) (all matterList) {
	for _, h := range st.Halted {
		all = append(all, matter{
			sentence: fmt.Sprintf("event %s at %s of %s: %s", h.EventID, h.Position, h.Table, h.Message),
			since:    h.Since, remedy: h.Remedy(),
		})
	}
	if r := st.State.Remedy(); len(st.Halted) == 0 && !r.IsZero() {
		all = append(all, matter{sentence: st.State.Reason, since: st.State.Since, remedy: r})
	}
	for _, w := range st.Waits {
		if !all.tell(w.Sentence()) && !all.tell(w.Reason) {
			all = append(all, matter{sentence: w.Sentence(), since: w.Since, remedy: w.Remedy()})
		}
	}
	return all
}

func backlogRows(b *relay.Backlog, unasked error, all matterList) string {
	if b != nil {
		return Rows(b, " rows")
	}
	if unasked == nil {
		return "not known"
	}
	why, _ := fault.Split(unasked)
	if all.tell(why) {
		return "not known"
	}
	return "not known: " + why
}

// Rows is how many rows a backlog has, with their name, and how old the oldest is.
func Rows(b *relay.Backlog, name string) string {
	text := fmt.Sprintf("%d%s", b.Rows, name)
	if b.Rows >= relay.MaxCounted {
		text = "at least " + text
	}
	if b.Oldest != nil {
		age := time.Duration(*b.Oldest * float64(time.Second))
		text += fmt.Sprintf(", the oldest written %s ago", human.Duration(age))
	}
	return text
}
