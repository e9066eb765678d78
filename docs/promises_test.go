package docs_test // the packages that it asks import package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/rabbitmq"
)

const promisesHead = "# What is promised, by broker\n\n" +
	"This page is printed from the code: `make docs`. `cdc-outbox check`, the page, and `promises` in " +
	"`/status` and in\n`cdc-outbox status --json` print the same sentences. In every case the slot moves, " +
	"and a row is marked, only past\nevents that the broker has acknowledged. " +
	"[correctness.md](correctness.md) says how that is tested.\n"

// TestPromises prints docs/promises.md from the promises of the adapters.
func TestPromises(t *testing.T) {
	page := promisesHead
	for _, of := range []struct {
		heading  string
		promises sink.Promises
	}{
		{"Kafka, `delivery: at_least_once`", kafka.Promises(false)},
		{"Kafka, `delivery: exactly_once`", kafka.Promises(true)},
		{"Kafka, `source: polling`", polling.Promises(kafka.Promises(false))},
		{"NATS JetStream, `delivery: at_least_once`", nats.Promises(false)},
		{"NATS JetStream, `delivery: exactly_once`", nats.Promises(true)},
		{"RabbitMQ", rabbitmq.Promises(true)},
		{"RabbitMQ, `rabbitmq.lock: false`", rabbitmq.Promises(false)},
	} {
		require.Len(t, of.promises, 6)
		var rows strings.Builder
		for _, p := range of.promises[1:] {
			fmt.Fprintf(&rows, "| %s | %s |\n", p.Of, p.Text)
		}
		page += "\n## " + of.heading + "\n\n| | |\n|---|---|\n" + rows.String()
	}
	if flag.Lookup("update").Value.String() == "true" { // see TestBugs
		require.NoError(t, os.WriteFile("promises.md", []byte(page), 0o600))
	}
	text, err := os.ReadFile("promises.md")
	require.NoError(t, err)
	require.Equal(t, page, string(text), "make docs prints promises.md")
}
