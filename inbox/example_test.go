package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Two deliveries of an event have one effect: the claim of its id and the effect are one transaction.
func ExampleInbox_Handle() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing")
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	event := inbox.Event{ID: "7d2c0f1e-9a53-4c55-8f0e-6a1a2b3c4d5e"}
	err = in.Handle(ctx, event, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id, total) VALUES ($1, $2)", "42", 12.50)
		return err
	})
	if err != nil && !errors.Is(err, inbox.ErrDuplicate) {
		log.Fatal(err) // not handled: the event must be delivered again
	}
}

// Several events in one transaction: one statement claims them, and one message has their effects.
func ExampleInbox_HandleBatch() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing")
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	events := []inbox.Event{{ID: "7d2c0f1e-9a53-4c55-8f0e-6a1a2b3c4d5e"}, {ID: "0c1f6a52-3b7e-4c19-9d0a-2f7f5a1b6c3d"}}
	orders := []string{"42", "43"}
	err = in.HandleBatch(ctx, events, func(ctx context.Context, tx pgx.Tx, fresh []int) error {
		var b pgx.Batch
		for _, i := range fresh {
			b.Queue("INSERT INTO invoices (order_id) VALUES ($1)", orders[i])
		}
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil && !errors.Is(err, inbox.ErrDuplicate) {
		log.Print(err) // nothing was written: deliver them one by one
	}
}

// The same with database/sql.
func ExampleSQL_Handle() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://billing@127.0.0.1/billing") // import _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.NewSQL(db, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	event := inbox.Event{ID: "7d2c0f1e-9a53-4c55-8f0e-6a1a2b3c4d5e"}
	switch err := in.Handle(ctx, event, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO invoices (order_id, total) VALUES ($1, $2)", "42", 12.50)
		return err
	}); {
	case err == nil, errors.Is(err, inbox.ErrDuplicate):
		// Acknowledge the delivery.
	case errors.Is(err, inbox.ErrContended):
		// Another delivery of the event is being handled: deliver this one again later.
	default:
		log.Print(err) // nothing was written: deliver it again
	}
}

// A call that no transaction can undo is made at most once.
func ExampleInbox_Forward() {
	ctx := context.Background()
	var in *inbox.Inbox // from inbox.New
	event := inbox.Event{ID: "7d2c0f1e-9a53-4c55-8f0e-6a1a2b3c4d5e"}
	err := in.Forward(ctx, event, 10*time.Second, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "mail.example.com:25")
		if err != nil {
			return errors.Join(inbox.ErrNotSent, err) // releases the claim
		}
		return conn.Close()
	})
	if errors.Is(err, inbox.ErrUnfinished) {
		log.Print("it is unknown whether the call had its effect: ask the other system")
	}
}

// A daily job deletes the ids of events that cannot be delivered again.
func ExampleInbox_Prune() {
	var in *inbox.Inbox // from inbox.New
	if _, err := in.Prune(context.Background(), 14*24*time.Hour); err != nil {
		log.Print(err)
	}
}

// A page that shows what another service has done with an event waits for a moment, and then shows what there is.
func ExampleInbox_Wait() {
	var billing *inbox.Inbox // from inbox.New, with the name of the consumer, on its database
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := billing.Wait(ctx, "7d2c0f1e-9a53-4c55-8f0e-6a1a2b3c4d5e"); err != nil {
		log.Print("not billed yet: ", err)
	}
}
