package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// contender reads all rows from a slot of its own. A contender with topics publishes them.
type contender struct {
	name string
	// missing says why it cannot run here; empty where it can.
	missing string
	// topics are what it publishes to in this round; nil where it publishes nothing.
	topics func(round int) []string
	// pass reads the slot to the end of the load.
	pass func(ctx context.Context, b *bed, slot string, round int) (result, error)
}

func contenders(b *bed, debezium bool) []contender {
	all := []contender{
		{name: "bare reader, napping (the limit)", pass: passReader},
		{name: "pg_recvlogical to /dev/null", missing: missingRecvlogical(b), pass: passRecvlogical},
		{name: "cdc-outbox to Kafka", missing: missingBinary(), topics: ourTopics, pass: passOurs},
		{
			name: "cdc-outbox exactly_once to Kafka", missing: missingBinary(), topics: exactlyOnceTopics,
			pass: passExactlyOnce,
		},
	}
	if debezium {
		all = append(all, contender{
			name: "Debezium, default settings, to Kafka", missing: missingJava(), topics: debeziumTopics,
			pass: passDebezium,
		})
	}
	return all
}

func passReader(ctx context.Context, b *bed, slot string, _ int) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command(self, readerCommand, "-dsn", b.dsn, "-slot", slot, "-rows", fmt.Sprint(b.rows))
	return runToEnd(ctx, b, cmd, slot)
}

func missingRecvlogical(b *bed) string {
	if _, err := os.Stat(recvlogical(b)); err != nil {
		return "not installed"
	}
	return ""
}

func recvlogical(b *bed) string { return filepath.Join(b.postgres.BinDir(), "pg_recvlogical") }

func passRecvlogical(ctx context.Context, b *bed, slot string, _ int) (result, error) {
	cmd := exec.Command(recvlogical(b), "--dbname", b.dsn, "--slot", slot, "--start", "--file", "/dev/null",
		"--no-loop", "--endpos", b.end, "--option", "proto_version=1", "--option", "publication_names="+publication)
	return runToEnd(ctx, b, cmd, slot)
}

// runToEnd is the pass of a contender that ends when it has read everything.
func runToEnd(ctx context.Context, b *bed, cmd *exec.Cmd, slot string) (result, error) {
	server := b.watchWalsender(ctx, slot)
	p, err := startProcess(ctx, cmd)
	if err != nil {
		server()
		return result{}, err
	}
	err = p.await(ctx)
	elapsed := time.Since(p.started)
	return result{Elapsed: elapsed, Client: p.used(), Server: server().CPU}, err
}

const binary = "bin/cdc-outbox"

func missingBinary() string {
	if _, err := os.Stat(binary); err != nil {
		return binary + " is not built"
	}
	return ""
}

func ourPrefix(round int) string { return fmt.Sprintf("ours-%d", round) }

func ourTopics(round int) []string { return topicsOf(ourPrefix(round)) }

// topicsOf is one topic per aggregate type.
func topicsOf(prefix string) []string {
	var topics []string
	for _, t := range aggregateTypes {
		topics = append(topics, prefix+"."+t)
	}
	return topics
}

func passOurs(ctx context.Context, b *bed, slot string, round int) (result, error) {
	return passConnector(ctx, b, slot, ourCommand(b, slot, ourPrefix(round), atLeastOnce), func(p *process) error {
		return b.awaitRecords(ctx, p, ourTopics(round))
	})
}

// passConnector runs the connector until all is there.
func passConnector(ctx context.Context, b *bed, slot string, cmd *exec.Cmd,
	all func(p *process) error,
) (result, error) {
	server := b.watchWalsender(ctx, slot)
	p, err := startProcess(ctx, cmd)
	if err != nil {
		server()
		return result{}, err
	}
	err = all(p)
	elapsed := time.Since(p.started)
	serverCPU := server().CPU // up to here: a walsender with nothing left to send costs nothing worth counting
	if serr := p.stop(); err == nil {
		err = serr
	}
	return result{Elapsed: elapsed, Client: p.used(), Server: serverCPU}, err
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
