package schemacheck

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Text is the result for people.
func (r *Result) Text(s console.Style) string {
	var b strings.Builder
	mark, tint := "✓ ", console.Green
	if !r.Fits() {
		mark, tint = "✗ ", console.Red
	}
	fmt.Fprintf(&b, "%s %s (%s)\n", s.Paint(tint, mark+fault.Printable(r.Subject)), fault.Printable(r.Path), r.Type)
	line := func(text string) { s.Paragraph(&b, "", text) }
	switch {
	case r.New:
		line("The registry does not have this subject yet.")
	case r.Compatible && r.LatestOnly:
		line("Compatible with the latest version. The registry compares with no other.")
	case r.Compatible:
		line("Compatible, says the registry.")
	default:
		line("Not compatible, says the registry.")
		for _, why := range r.Reasons {
			s.Paragraph(&b, "- ", why)
		}
	}
	if r.Unusable != "" {
		line("The relay cannot encode payloads by it: " + r.Unusable + ".")
	}
	if n := r.Rows; n != nil {
		line(n.sentence())
	}
	return b.String()
}

func (n *Rows) sentence() string {
	switch {
	case n.Tried == 0:
		return "None of the latest rows asks for it."
	case n.Misfits == 0:
		return human.Counted(n.Tried, "row fits", "rows fit") + "."
	}
	return fmt.Sprintf("%d of %s not fit. Event %s: %s.", n.Misfits, human.Counted(n.Tried, "row does", "rows do"),
		n.EventID, n.Misfit)
}
