// Command broker runs the tests' Apache Kafka in the foreground, for trying cdc-outbox by hand on a machine without a
// container engine, creates topics on it and prints what is in them. It needs Java 17 and, the first time, Maven.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

const usage = `usage:
  broker run     [-port 9092] [TOPIC ...]       run Kafka until Ctrl-C; its data is deleted afterwards
  broker create  [-port 9092] TOPIC ...         create topics with 12 partitions
  broker consume [-port 9092] [-n 0] TOPIC ...  print the records from the beginning, -n of them or until Ctrl-C
`

// partitions of a topic created here: the number that the documentation uses.
const partitions = 12

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	p := flags.Int("port", 9092, "")
	n := flags.Int("n", 0, "")
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	var err error
	switch topics := flags.Args(); {
	case os.Args[1] == "run":
		err = run(ctx, *p, topics)
	case os.Args[1] == "create" && len(topics) > 0:
		err = withClient(*p, func(c *kafkaclient.Client) error { return create(ctx, c, topics) })
	case os.Args[1] == "consume" && len(topics) > 0:
		err = consume(ctx, port.Addr(*p), topics, *n)
	default:
		flags.Usage()
		os.Exit(2)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p int, topics []string) (err error) {
	// Asked here: Kafka itself would say it in a stack trace, after seconds.
	l, err := net.Listen("tcp", port.Addr(p))
	if err != nil {
		return fmt.Errorf("%w; take another port: make kafka PORT=9192", err)
	}
	if err := l.Close(); err != nil {
		return err
	}
	fmt.Println("Starting Apache Kafka; the first time Maven fetches it.")
	cluster, err := kafka.Start(ctx, kafka.Options{Port: p})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	b := cluster.Brokers[0]
	if err := create(ctx, cluster.Client, topics); err != nil {
		return err
	}
	fmt.Printf("Kafka answers on %s. Ctrl-C stops it and removes its data. Its log: %s\n", b.Addr(), b.LogPath())
	select {
	case <-b.Done():
		return fmt.Errorf("Kafka has ended; the end of its log:\n%s", b.LogTail(15))
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return b.Stop(ctx)
}

func withClient(p int, use func(*kafkaclient.Client) error) error {
	c, err := kafkaclient.New([]string{port.Addr(p)})
	if err != nil {
		return err
	}
	defer c.Close()
	return use(c)
}

func create(ctx context.Context, c *kafkaclient.Client, topics []string) error {
	for _, topic := range topics {
		err := c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: partitions})
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists):
			fmt.Printf("Topic %s is there already.\n", topic)
		case err != nil:
			return err
		default:
			fmt.Printf("Topic %s has %d partitions.\n", topic, partitions)
		}
	}
	return nil
}

// text shows what a terminal can show, and the rest in Go's notation.
func text(b []byte) string {
	if b == nil {
		return "(null)"
	}
	if s := string(b); !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == '\uFFFD'
	}) {
		return s
	}
	return fmt.Sprintf("%q", b)
}
