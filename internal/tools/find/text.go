package find

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// shownRows is how many rows of a key are printed.
const shownRows = 20

// Text writes the report for a person: the verdict first, then its evidence.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	b.WriteString(fault.Printable(r.Sentence) + "\n")
	if next := r.Remedy(); !next.IsZero() {
		b.WriteString("Next: " + fault.PrintableLines(next.String()) + "\n")
	}
	r.rowsText(&b)
	r.recordsText(&b)
	if s := r.Slot; s != nil {
		fmt.Fprintf(&b, "\nSlot %s has confirmed the log up to %s.\n", fault.Printable(s.Name), s.Confirmed)
	}
	topics := "1 topic"
	if n := len(r.Kafka.Topics); n != 1 {
		topics = fmt.Sprintf("%d topics", n)
	}
	fmt.Fprintf(&b, "Searched %s of %s%s.\n", human.Counted(r.Kafka.Records, "record", "records"), topics,
		r.sinceText())
	for _, why := range r.NotLooked {
		fmt.Fprintf(&b, "Not searched: %s\n", fault.PrintableLines(why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) sinceText() string {
	if r.Kafka.Since.IsZero() {
		return ""
	}
	return " since " + human.Time(r.Kafka.Since)
}

func (r *Report) rowsText(b *strings.Builder) {
	if len(r.Rows) == 0 {
		return
	}
	b.WriteString("\n")
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TABLE\tEVENT\tTIMESTAMP\tTOPIC\tIN "+strings.ToUpper(r.names.Broker))
	rows := r.Rows
	if len(rows) > shownRows {
		rows = rows[len(rows)-shownRows:]
	}
	for i := range rows {
		row := &rows[i]
		at, topic, in := "-", fault.Printable(row.Topic), "no"
		if row.Timestamp != nil {
			at = human.Stamp(*row.Timestamp)
		}
		if row.Bad != "" {
			topic = "bad row: " + fault.Printable(row.Bad)
		}
		if row.InKafka {
			in = "yes"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", fault.Printable(row.Table), fault.Printable(row.EventID), at, topic, in)
	}
	_ = tw.Flush() // the builder takes everything
	if n := len(r.Rows) - len(rows); n > 0 {
		fmt.Fprintf(b, "and %d earlier rows\n", n)
	}
}

func (r *Report) recordsText(b *strings.Builder) {
	if len(r.Records) == 0 {
		return
	}
	b.WriteString("\n")
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TOPIC\tPARTITION\tOFFSET\tTIMESTAMP\tEVENT\tPOSITION\tCONFIRMED")
	for i := range r.Records {
		rec := &r.Records[i]
		confirmed := "-"
		switch {
		case rec.Replayed != "":
			confirmed = "replayed by run " + fault.Printable(rec.Replayed)
		case rec.Confirmed != nil && *rec.Confirmed:
			confirmed = "yes"
		case rec.Confirmed != nil:
			confirmed = "not yet"
		}
		position := "-"
		if rec.Position != "" {
			position = fault.Printable(rec.Position)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\t%s\t%s\n", fault.Printable(rec.Topic), rec.Partition, rec.Offset,
			human.Stamp(rec.Timestamp), fault.Printable(rec.EventID), position, confirmed)
	}
	_ = tw.Flush() // the builder takes everything
	if r.More > 0 {
		fmt.Fprintf(b, "and %s before them\n", human.Counted(r.More, "record", "records"))
	}
}
