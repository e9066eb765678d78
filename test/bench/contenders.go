package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// contender reads all rows from a slot of its own.
type contender struct {
	key  string // in the output for benchstat
	name string // in tables
	// missing says why it cannot run here; empty where it can.
	missing   string
	rounds    int  // fewer than the others have; 0: as many
	publishes bool // to the topics of its turn, which are read back and compared with the table
	// pass reads the slot to the end of the load.
	pass func(ctx context.Context, t turn) (result, error)
}

// turn is one pass of a contender: whose rows, from which slot, to which topics.
type turn struct {
	bed    *bed
	slot   string
	prefix string // of the topics
}

func (t turn) topics() []string { return topicsOf(t.prefix) }

// The keys that the report compares with each other.
const (
	napping     = "reader-napping"
	neverNaps   = "reader"
	recvlogical = "pg_recvlogical"
	ourStream   = "stream"
	debeziumKey = "debezium"
	tunedKey    = "debezium-tuned"
)

// nameOf is how tables call a contender.
var nameOf = map[string]string{
	napping:     "bare reader, napping (the limit)",
	neverNaps:   "the same reader, never napping",
	recvlogical: "`pg_recvlogical` to /dev/null",
	ourStream:   "cdc-outbox's stream, discarding",
	atLeastOnce: "cdc-outbox to Kafka",
	exactlyOnce: "cdc-outbox exactly_once to Kafka",
	debeziumKey: "Debezium, default settings, to Kafka",
	tunedKey:    "Debezium, tuned, to Kafka",
}

// contenders fill the main table, for each load.
func contenders(b *bed) []contender {
	return []contender{
		{key: napping, pass: passReference(referenceNap)},
		{key: neverNaps, pass: passReference(0)},
		{key: recvlogical, missing: missingRecvlogical(b), pass: passRecvlogical},
		{key: ourStream, pass: passStream},
		{key: atLeastOnce, missing: missingBinary(), publishes: true, pass: passOurs()},
		{key: exactlyOnce, missing: missingBinary(), publishes: true, pass: passExactlyOnce},
	}
}

func debeziums(rounds int) []contender {
	return []contender{
		{key: debeziumKey, missing: missingJava(), rounds: rounds, publishes: true, pass: passDebezium(nil)},
		{key: tunedKey, missing: missingJava(), rounds: rounds, publishes: true, pass: passDebezium(debeziumTuned)},
	}
}

func (c *contender) title() string {
	return cmp.Or(c.name, nameOf[c.key], c.key)
}

func passReference(nap time.Duration) func(context.Context, turn) (result, error) {
	return func(ctx context.Context, t turn) (result, error) {
		return t.passSelf(ctx, referenceCommand, "-nap", nap.String())
	}
}

func passStream(ctx context.Context, t turn) (result, error) { return t.passSelf(ctx, readerCommand) }

// passSelf runs one of this program's readers as a process of its own.
func (t turn) passSelf(ctx context.Context, command string, more ...string) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command(self, append([]string{
		command, "-dsn", t.bed.dsn, "-slot", t.slot, "-rows", fmt.Sprint(t.bed.rows),
	}, more...)...)
	return t.runToEnd(ctx, cmd)
}

func missingRecvlogical(b *bed) string {
	if _, err := os.Stat(recvlogicalPath(b)); err != nil {
		return "not installed"
	}
	return ""
}

func recvlogicalPath(b *bed) string { return filepath.Join(b.postgres.BinDir(), "pg_recvlogical") }

func passRecvlogical(ctx context.Context, t turn) (result, error) {
	cmd := exec.Command(recvlogicalPath(t.bed), "--dbname", t.bed.dsn, "--slot", t.slot, "--start",
		"--file", "/dev/null", "--no-loop", "--endpos", t.bed.end, "--option", "proto_version=1",
		"--option", "publication_names="+publication)
	return t.runToEnd(ctx, cmd)
}

// runToEnd is the pass of a contender that ends when it has read everything.
func (t turn) runToEnd(ctx context.Context, cmd *exec.Cmd) (result, error) {
	server := t.bed.watchWalsender(ctx, t.slot)
	p, err := startProcess(ctx, cmd)
	if err != nil {
		server()
		return result{}, err
	}
	err = p.await(ctx)
	return p.result(time.Now(), server()), err
}

const binary = "bin/cdc-outbox"

func missingBinary() string {
	if _, err := os.Stat(binary); err != nil {
		return binary + " is not built"
	}
	return ""
}

// topicsOf is one topic per aggregate type.
func topicsOf(prefix string) []string {
	var topics []string
	for _, t := range aggregateTypes {
		topics = append(topics, prefix+"."+t)
	}
	return topics
}

// rivals are another build of the connector, to be compared with this one in the same minutes.
func rivals(binary string) []contender {
	if binary == "" {
		return nil
	}
	other := func(delivery string) func(context.Context, turn) (result, error) {
		return func(ctx context.Context, t turn) (result, error) { return t.passBinary(ctx, binary, delivery) }
	}
	return []contender{
		{key: "against", name: "another build to Kafka", publishes: true, pass: other(atLeastOnce)},
		{
			key: "against-" + exactlyOnce, name: "another build exactly_once to Kafka", publishes: true,
			pass: other(exactlyOnce),
		},
	}
}

// passOurs runs the connector with its defaults and a few settings more.
func passOurs(env ...string) func(context.Context, turn) (result, error) {
	return func(ctx context.Context, t turn) (result, error) {
		return t.passConnector(ctx, ourCommand(t.bed, t.slot, t.prefix, atLeastOnce, env...), func(p *process) error {
			return t.bed.awaitRecords(ctx, p, t.topics())
		})
	}
}

// passBinary runs a build of the connector with its defaults.
func (t turn) passBinary(ctx context.Context, path, delivery string) (result, error) {
	if delivery == exactlyOnce {
		return t.passCounted(ctx, path)
	}
	cmd := ourCommand(t.bed, t.slot, t.prefix, delivery)
	cmd.Path = path
	return t.passConnector(ctx, cmd, func(p *process) error { return t.bed.awaitRecords(ctx, p, t.topics()) })
}

// passConnector runs the connector until all is there.
func (t turn) passConnector(ctx context.Context, cmd *exec.Cmd, all func(p *process) error) (result, error) {
	server := t.bed.watchWalsender(ctx, t.slot)
	p, err := startProcess(ctx, cmd)
	if err != nil {
		server()
		return result{}, err
	}
	err = all(p)
	end := time.Now()
	walsender := server() // up to here: a walsender with nothing left to send costs nothing worth counting
	if serr := p.stop(); err == nil {
		err = serr
	}
	return p.result(end, walsender), err
}

// The values of the key delivery.
const (
	atLeastOnce = "at_least_once"
	exactlyOnce = "exactly_once"
)

// ourCommand is the connector with its defaults, but for the kind of delivery.
func ourCommand(b *bed, slot, prefix, delivery string, more ...string) *exec.Cmd {
	cmd := exec.Command(binary, "run")
	cmd.Env = append(os.Environ(),
		"CDC_OUTBOX_POSTGRES_DSN="+b.dsn,
		"CDC_OUTBOX_POSTGRES_SLOT="+slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION="+publication,
		"CDC_OUTBOX_KAFKA_BROKERS="+b.brokers,
		"CDC_OUTBOX_ROUTER_TOPIC="+prefix+".${aggregate_type}",
		"CDC_OUTBOX_HTTP_LISTEN=127.0.0.1:0",
		"CDC_OUTBOX_DELIVERY="+delivery,
	)
	cmd.Env = append(cmd.Env, more...)
	return cmd
}
