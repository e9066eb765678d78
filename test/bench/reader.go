package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

const readerCommand = "reader"

var errAllRead = errors.New("all rows read")

// bareReader reads rows from a slot with the product's own stream and does nothing with them: what the stream leaves to
// the producer after it. What the walsender leaves to any client is the reference reader's business.
func bareReader(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(readerCommand, flag.ContinueOnError)
	dsn := flags.String("dsn", "", "")
	slot := flags.String("slot", "", "")
	rows := flags.Int("rows", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg := replication.Config{
		DSN:            func() (string, error) { return *dsn, nil },
		Slot:           *slot,
		Publication:    publication,
		Tables:         []identifier.Table{{Schema: "public", Name: "outbox"}},
		Confirmed:      func() lsn.LSN { return 0 },
		StatusInterval: time.Second,
		Logger:         zap.NewNop(),
	}
	err := replication.Run(ctx, cfg, func(_ context.Context, s *replication.Stream) error {
		for seen := 0; seen < *rows; {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			if m.Kind == pgoutput.KindInsert {
				seen++
			}
		}
		return errAllRead
	})
	if err != nil && !errors.Is(err, errAllRead) {
		return fmt.Errorf("reader: %w", err)
	}
	return nil
}
