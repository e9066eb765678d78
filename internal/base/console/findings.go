package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// levels are the findings' levels from the worst on, with their signs.
var levels = []struct {
	level preflight.Level
	sign  string
	tint  Tint
}{
	{preflight.Fail, "✗", Red},
	{preflight.Warn, "!", Yellow},
	{preflight.OK, "✓", Green},
}

// Findings writes a paragraph for each finding, the worst first: the fact, why it matters, the fix. Findings that
// differ only in their subject share a paragraph. With quiet, findings without a problem are left out.
func Findings(w io.Writer, findings []preflight.Finding, s Style, quiet bool) error {
	var b strings.Builder
	for _, l := range levels {
		if quiet && l.level == preflight.OK {
			continue
		}
		for _, g := range grouped(findings, l.level) {
			s.Line(&b, s.Paint(l.tint, l.sign)+" ", 2, fault.Printable(strings.Join(g.subjects, ", ")+": "+g.Found))
			s.Paragraph(&b, "why: ", g.Why)
			s.Remedy(&b, "fix: ", g.ToDo())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// group is findings that say the same of several subjects.
type group struct {
	preflight.Finding
	subjects []string
}

// shownSubjects is how many subjects of a group are named.
const shownSubjects = 8

func grouped(findings []preflight.Finding, level preflight.Level) []*group {
	var groups []*group
	for _, f := range findings {
		if f.Level != level {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.says(f) })
		if at < 0 {
			groups = append(groups, &group{Finding: f, subjects: []string{f.Subject}})
			continue
		}
		groups[at].subjects = append(groups[at].subjects, f.Subject)
	}
	for _, g := range groups {
		g.shorten()
	}
	return groups
}

// says reports whether a finding says the same of a subject of the same kind.
func (g *group) says(f preflight.Finding) bool {
	return g.kind() == kind(f.Subject) && g.Found == f.Found && g.Why == f.Why && g.Remedy == f.Remedy &&
		slices.Equal(g.Commands, f.Commands)
}

func (g *group) kind() string { return kind(g.Subject) }

// kind is the first word of a subject such as "topic order.events".
func kind(subject string) string {
	first, _, _ := strings.Cut(subject, " ")
	return first
}

// shorten turns "topic a", "topic b" into "topics a", "b", and names no more than a few.
func (g *group) shorten() {
	n := len(g.subjects)
	if n == 1 {
		return
	}
	for i, s := range g.subjects {
		if _, name, ok := strings.Cut(s, " "); ok {
			g.subjects[i] = name
		}
	}
	if n > shownSubjects {
		g.subjects = append(g.subjects[:shownSubjects-1:shownSubjects-1], fmt.Sprintf("and %d more", n-shownSubjects+1))
	}
	if strings.Contains(g.Subject, " ") {
		g.subjects[0] = g.kind() + "s " + g.subjects[0]
	}
}
