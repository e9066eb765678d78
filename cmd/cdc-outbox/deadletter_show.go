package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// shownLetter is what show --json prints.
type shownLetter struct {
	*deadletter.Entry
	ValueBytes int          `json:"value_bytes"`
	Content    *contentJSON `json:"content,omitempty"` // with --payload
}

type contentJSON struct {
	Key         *string         `json:"key"`
	Value       *string         `json:"value"`
	ValueBase64 []byte          `json:"value_base64,omitempty"` // where the value is not a text
	Row         *deadletter.Row `json:"row,omitempty"`
	Headers     []headerJSON    `json:"headers,omitempty"`
}

type headerJSON struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

func (a *app) deadLetterShowCommand() *cobra.Command {
	var asJSON, payload bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter: what, where and why; with --payload also its content",
		Long: `show prints what a dead letter says of itself. ID is an event's id or a position. What the application
wrote, its payload, key, headers and columns, may be confidential and is shown only with --payload.`,
		Example: `  cdc-outbox dead-letter show 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox dead-letter show 0000000016b374d8-00000001 --payload`,
		Args: oneLetter,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			b, err := a.openLetters(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer b.Close()
			e, err := b.Find(args[0])
			if err != nil {
				return err
			}
			l, err := b.Letter(cmd.Context(), e)
			if err != nil {
				return err
			}
			shown := shownLetter{Entry: e, ValueBytes: len(l.Value)}
			if payload {
				shown.Content = contentOf(l)
			}
			if asJSON {
				return a.printJSON(shown)
			}
			return writeLetter(a.stdout, &shown)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&payload, "payload", false, "also print payload, key, headers and columns")
	return cmd
}

func oneLetter(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return fault.Usage(cmd.CommandPath()+" takes one id or position",
		"cdc-outbox dead-letter list shows which there are")
}

func contentOf(l *deadletter.Letter) *contentJSON {
	c := &contentJSON{Row: l.Row, Key: textOf(l.RecordKey), Value: textOf(l.Value)}
	if l.Value != nil && !utf8.Valid(l.Value) {
		c.Value, c.ValueBase64 = nil, l.Value
	}
	for _, h := range l.Headers {
		c.Headers = append(c.Headers, headerJSON{h.Key, textOf(h.Value)})
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

func writeLetter(w io.Writer, s *shownLetter) error {
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
	line("table", s.Table)
	line("reason", s.Reason)
	line("detail", s.Detail)
	line("intended topic", cmp.Or(s.Topic, "none"))
	line("key", s.Key)
	if s.Bytes > 0 {
		line("size", fmt.Sprintf("%d bytes, the topic takes %d", s.Bytes, s.Limit))
	}
	if !s.CommitTime.IsZero() {
		line("committed", s.CommitTime.Format(time.RFC3339Nano))
	}
	line("written", s.Written.Format(time.RFC3339Nano))
	line("in the topic", fmt.Sprintf("partition %d, offset %d, %d times", s.Partition, s.Offset, s.Copies))
	line("holds", fmt.Sprintf("%s, %d bytes", s.Kind, s.ValueBytes))
	line("cut", strings.Join(s.Cut, ", "))
	state := string(s.State)
	if s.State == deadletter.Retried {
		state += " at " + s.RetriedAt.Format(time.RFC3339)
	}
	line("state", state)
	if err := tw.Flush(); err != nil {
		return err
	}
	if s.Content != nil {
		writeContent(&b, s.Content)
	} else if s.Kind != deadletter.KindPointer {
		b.WriteString("\n--payload shows what the application wrote\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeContent prints what the application wrote, without what a terminal would obey.
func writeContent(b *strings.Builder, c *contentJSON) {
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
