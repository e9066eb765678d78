package catalogue

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Text writes the catalogue for people.
func (c *Catalogue) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, cell := range cells {
			cells[i] = fault.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	row("TYPE", "TOPIC", "TABLE", "SCHEMA", "ROWS", "LAST SEEN")
	for i := range c.Events {
		e := &c.Events[i]
		row(orDash(e.Type), e.Topic, e.Table, e.schema(), human.Count(int64(e.Rows)), human.Time(e.Last))
	}
	if len(c.Consumers) > 0 {
		fmt.Fprintln(w)
		row("CONSUMERS", "TOPIC", "BEHIND")
		for _, g := range c.Consumers {
			row(g.Group, g.Topic, human.Counted(g.Lag, "record", "records"))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n"+fault.Printable(c.summary())+"\n")
	return err
}

func (e *Event) schema() string {
	switch {
	case e.Schema == 0:
		return "-"
	case e.Subject == "":
		return fmt.Sprintf("id %d", e.Schema)
	}
	return fmt.Sprintf("%s, version %s (id %d)", e.Subject, e.Version, e.Schema)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *Catalogue) summary() string {
	s := "Of the latest " + human.Counted(c.Rows, "row", "rows")
	if c.Since != nil {
		s += ", since " + human.Time(*c.Since)
	}
	s += "."
	if c.BadRows > 0 {
		s += " " + human.Counted(c.BadRows, "row becomes", "rows become") + " no record; cdc-outbox check names why."
	}
	switch {
	case c.Unknown != "":
		s += " Consumers are not known: " + c.Unknown + "."
	case len(c.Consumers) == 0:
		s += " No consumer group that this user may see has read these topics."
	}
	return s
}
