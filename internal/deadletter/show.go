package deadletter

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Shown is the output of dead-letter show for a letter, as JSON or as text.
type Shown struct {
	*Entry
	ValueBytes int      `json:"value_bytes"`
	Content    *Content `json:"content,omitempty"` // with --payload
}

// Content is the data that the application wrote.
type Content struct {
	Key         *string       `json:"key"`
	Value       *string       `json:"value"`
	ValueBase64 []byte        `json:"value_base64,omitempty"` // if the value is not a text
	Row         *Row          `json:"row,omitempty"`
	Headers     []ShownHeader `json:"headers,omitempty"`
}

// ShownHeader is a header of the record.
type ShownHeader struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// ContentOf returns the letter's content.
func ContentOf(l *Letter) *Content {
	c := &Content{Row: l.Row, Key: textOf(l.RecordKey), Value: textOf(l.Value)}
	if l.Value != nil && !utf8.Valid(l.Value) {
		c.Value, c.ValueBase64 = nil, l.Value
	}
	for _, h := range l.Headers {
		c.Headers = append(c.Headers, ShownHeader{h.Key, textOf(h.Value)})
	}
	return c
}

func textOf(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// Text is the letter for a person.
func (s *Shown) Text() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", label, fault.Printable(value))
		}
	}
	line("id", cmp.Or(s.ID, "none"))
	line("type", s.Type)
	line("position", s.Position)
	line("slot", s.Slot)
	line("group", s.Group)
	if s.Group != "" {
		line("attempts", strconv.Itoa(s.HandlerAttempts))
	}
	line("waits for", s.WaitsFor)
	line("table", s.Table)
	line("reason", s.Reason)
	line("detail", s.Detail)
	line("intended topic", cmp.Or(s.Topic, "none"))
	line("key", s.Key)
	if s.Bytes > 0 {
		line("size", fmt.Sprintf("%d bytes, the topic takes %d", s.Bytes, s.Limit))
	}
	if !s.CommitTime.IsZero() {
		line("committed", human.Stamp(s.CommitTime))
	}
	line("written", human.Stamp(s.Written))
	line("in the topic", fmt.Sprintf("partition %d, offset %d, %d times", s.Partition, s.Offset, s.Copies))
	line("holds", fmt.Sprintf("%s, %d bytes", s.Kind, s.ValueBytes))
	line("cut", strings.Join(s.Cut, ", "))
	state := string(s.State)
	if s.State == Retried {
		state += " at " + human.Time(s.RetriedAt)
	}
	line("state", state)
	_ = tw.Flush() // a Builder takes everything
	if s.Content != nil {
		writeContent(&b, s.Content)
	} else if s.Kind != KindPointer {
		b.WriteString("\n--payload shows what the application wrote\n")
	}
	return b.String()
}

// writeContent prints the application's data, without control characters for a terminal.
func writeContent(b *strings.Builder, c *Content) {
	value := func(v *string) string {
		if v == nil {
			return "NULL"
		}
		return fault.Printable(*v)
	}
	fmt.Fprintf(b, "\nkey: %s\n", value(c.Key))
	for _, h := range c.Headers {
		fmt.Fprintf(b, "header %s: %s\n", fault.Printable(h.Name), value(h.Value))
	}
	if c.Row != nil {
		for i := range c.Row.Columns {
			col := &c.Row.Columns[i]
			text := fault.Printable(col.Text)
			if col.Kind != "" {
				text = "(" + fault.Printable(string(col.Kind)) + ")"
			}
			fmt.Fprintf(b, "column %s: %s\n", fault.Printable(col.Name), text)
		}
	}
	if c.ValueBase64 != nil {
		fmt.Fprintf(b, "value: %d bytes that are not a text; --json has them in base64\n", len(c.ValueBase64))
		return
	}
	fmt.Fprintf(b, "value: %s\n", value(c.Value))
}
