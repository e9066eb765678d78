package replication_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// A reader that logs each inserted row and counts a row as safe once it is logged. The slot and the publication exist.
func ExampleRun() {
	var tracker atomic.Pointer[offsets.Tracker] // Confirmed is called from several goroutines
	config := replication.Config{
		DSN:         func() (string, error) { return os.Getenv("RELAY_DSN"), nil },
		Slot:        "example",
		Publication: "example",
		Confirmed: func() offsets.LSN {
			if t := tracker.Load(); t != nil {
				return t.Confirmed()
			}
			return 0 // the slot's own position
		},
		OnIdentity: func(id replication.Identity) error {
			switch t := tracker.Load(); {
			case t == nil:
				tracker.Store(offsets.NewTracker(id.ConfirmedFlush))
			case id.TimelineChanged || id.ConfirmedFlush > t.Confirmed():
				t.Rewind(id.ConfirmedFlush)
			}
			return nil
		},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := replication.Run(ctx, config, func(ctx context.Context, s *replication.Stream) error {
		t := tracker.Load()
		t.Resume()
		for {
			m, err := s.Receive()
			if err != nil && ctx.Err() != nil {
				limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				return s.Finish(limited)
			}
			if err != nil {
				return err // Run reconnects if a new connection can help
			}
			if err := apply(t, m); err != nil {
				return err
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
}

// apply passes a message on to the tracker and acknowledges a row at once.
func apply(tracker *offsets.Tracker, m *pgoutput.Message) error {
	switch m.Kind {
	case pgoutput.KindBegin:
		return tracker.Begin(m.Begin.CommitLSN, m.Begin.CommitTime)
	case pgoutput.KindInsert:
		position, ticket, fresh, err := tracker.Add()
		if err != nil || !fresh {
			return err
		}
		log.Printf("%s %s.%s: %d columns", position, m.Relation.Namespace, m.Relation.Name, len(m.Tuple))
		return tracker.Ack([]offsets.Ticket{ticket}, nil)
	case pgoutput.KindCommit:
		return tracker.Commit(m.Commit.EndLSN)
	case pgoutput.KindKeepalive:
		tracker.Observe(m.Keepalive.WALEnd)
	case pgoutput.KindUpdate, pgoutput.KindTruncate:
		return errors.New("the table is append-only")
	}
	return nil
}
