package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
)

func (a *app) deadLetterExportCommand(in *string) *cobra.Command {
	var to string
	var open bool
	var chosen deadletter.Filter
	cmd := &cobra.Command{
		Use:   "export --to FILE",
		Short: "Write dead letters to a file, for longer than the topic keeps them",
		Long: `export writes the chosen letters, whole, and what retries have remembered of them, as JSON lines: a line
that names the topic, a line for each record with key, value, headers, partition, offset and timestamp, and a last line
with the number of records and their checksum. Bytes that are not UTF-8 are {"base64": "..."}. The file has its name
only when it is complete and on the disk, and no existing file is overwritten. It holds payloads, so only its owner may
read it. The topic stays as it is.

list, show, retry and dismiss take the letters from the file with --file.`,
		Example: `  cdc-outbox dead-letter export --in order.events.DLT --open --to order.events.DLT.jsonl
  cdc-outbox dead-letter export --in order.events.DLT --group billing --older-than 24h --to - | gzip > letters.gz`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return fault.Usage("no file is named", "name it with --to, or write --to - for stdout")
			}
			if err := checkReasons(chosen.Reasons); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			b, err := a.openLetters(cmd.Context(), c, *in, "")
			if err != nil {
				return err
			}
			defer b.Close()
			return a.exportLetters(cmd.Context(), b, b.Chosen(&chosen, open, time.Now()), to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the file to write, - for stdout")
	cmd.Flags().BoolVar(&open, "open", false, "only letters that were neither retried nor dismissed")
	filterFlags(cmd, &chosen)
	return cmd
}

func (a *app) exportLetters(ctx context.Context, b *letterbox.Box, chosen []*deadletter.Entry, to string) error {
	var out, say io.Writer = a.stdout, a.stderr
	finish := func() error { return nil }
	if to != "-" {
		f, err := letterbox.CreateFile(to)
		if err != nil {
			return err
		}
		defer f.Abort() // nothing after Finish
		out, say, finish = f, a.stdout, f.Finish
	}
	done, err := b.Export(ctx, out, chosen, a.progress())
	if err == nil {
		err = finish()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "%s written, with %s\n", human.Counted(done.Letters, "dead letter", "dead letters"),
		human.Counted(done.Records-done.Letters, "further copy or mark", "further copies or marks"))
	if done.Partial > 0 {
		fmt.Fprintf(say, "%s not hold the whole event: a retry needs the outbox table, or the event's topic\n",
			human.Counted(done.Partial, "of them does", "of them do"))
	}
	return nil
}
