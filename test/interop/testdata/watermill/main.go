// Writes with Watermill's publisher or its forwarder's, in two steps: watermill publisher|forwarder DSN create|write.
package main

import (
	"context"
	"log"
	"os"

	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Args[2])
	if err == nil {
		if os.Args[3] == "create" {
			err = create(conn)
		} else {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return write(tx, os.Args[1] == "forwarder") })
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// create makes the tables as a subscriber does when it starts: messages and offsets.
func create(conn *pgx.Conn) error {
	s, err := sql.NewSubscriber(sql.BeginnerFromPgx(conn), sql.SubscriberConfig{
		SchemaAdapter: sql.DefaultPostgreSQLSchema{}, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true,
	}, nil)
	if err != nil {
		return err
	}
	for _, topic := range []string{"orders", "invoices", "events"} {
		if err := s.SubscribeInitialize(topic); err != nil {
			return err
		}
	}
	return s.Close()
}

func write(tx pgx.Tx, forward bool) error {
	config := sql.PublisherConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}
	p, err := sql.NewPublisher(sql.TxFromPgx(tx), config, nil)
	if err != nil {
		return err
	}
	var to message.Publisher = p
	topic := "orders"
	if forward {
		topic = "shipments"
		to = forwarder.NewPublisher(p, forwarder.PublisherConfig{ForwarderTopic: "events"})
	}
	m := message.NewMessage("0198a5c4-7d0e-7000-8000-000000000002", []byte(`{"n": 1.50, "who": "Zoë"}`))
	m.Metadata.Set("partition_key", "o-2")
	m.Metadata.Set("tenant", "acme")
	return to.Publish(topic, m)
}
