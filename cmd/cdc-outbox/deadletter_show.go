package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
)

func (a *app) deadLetterShowCommand(in *string) *cobra.Command {
	var asJSON, payload bool
	var file string
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
			b, err := a.openLetters(cmd.Context(), c, *in, file)
			if err != nil {
				return err
			}
			defer b.Close()
			e, err := b.Find(args[0], &deadletter.Filter{})
			if err != nil {
				return err
			}
			l, err := b.Letter(cmd.Context(), e)
			if err != nil {
				return err
			}
			shown := deadletter.Shown{Entry: e, ValueBytes: len(l.Value)}
			if payload {
				shown.Content = deadletter.ContentOf(l)
			}
			if asJSON {
				return a.printJSON(shown)
			}
			_, err = io.WriteString(a.stdout, shown.Text())
			return err
		},
	}
	fileFlag(cmd, &file)
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
