package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// condition is a machine, a network or a load other than the usual one.
type condition struct {
	key, name string
	load      workload // zero: the usual one
	// apply changes the bed; undo takes it back. errSkipped where this machine does not let it.
	apply func(ctx context.Context, b *bed) (undo func(), err error)
}

var errSkipped = errors.New("skipped")

func conditions(rows int) []condition {
	sized := func(part int, payload string) workload {
		return workload{rows: max(rows/part, 1000), perTx: 10, payload: payload}
	}
	return []condition{
		{key: "usual", name: "nothing changed (333 B, loopback)"},
		{key: "cpu-half", name: "half of a core for Postgres, for the client, of each for Kafka", apply: slowed(.5)},
		{key: "cpu-quarter", name: "the same, a quarter", apply: slowed(.25)},
		{key: "crowded", name: "two other processes for each core, busy half of the time", apply: crowded},
		{key: "rtt-0.2ms", name: "round trip to Postgres 0.2 ms", apply: delayed(200 * time.Microsecond)},
		{key: "rtt-1ms", name: "round trip 1 ms", apply: delayed(time.Millisecond)},
		{key: "rtt-5ms", name: "round trip 5 ms", apply: delayed(5 * time.Millisecond)},
		{key: "tls", name: "TLS to Postgres", apply: encrypted},
		{key: "unix", name: "Unix socket", apply: overUnixSocket},
		{key: smallBuffers, name: "`tcp_wmem` and `tcp_rmem` at most 64 KiB"},
		{key: "payload-50B", name: "payload of 50 B", load: sized(1,
			"jsonb_build_object('n', n, 'note', left(md5(n::text), 30))")},
		{key: "payload-4KB", name: "payload of 4 KB", load: sized(6, notePayload(4_000))},
		{key: "payload-100KB", name: "payload of 100 KB", load: sized(125, notePayload(100_000))},
		{key: "elsewhere-90", name: "90 % of the WAL from other tables", load: workload{
			rows: max(rows/4, 1000), perTx: 10, elsewhere: elsewhereRows,
		}},
	}
}

// notePayload does not compress, neither in Postgres nor on the wire.
func notePayload(size int) string {
	return fmt.Sprintf("jsonb_build_object('n', n, 'note', note(n, %d))", size)
}

// elsewhereRows of 256 bytes make nine times the WAL of one row of the outbox and its key.
const elsewhereRows = 15

// smallBuffers are settings of a network namespace, so this condition is a run of this program in one of its own.
const smallBuffers = "small-buffers"

func matrixContenders() []contender {
	return []contender{
		{key: napping, pass: passReference(referenceNap)},
		{key: neverNaps, pass: passReference(0)},
		{key: ourStream, pass: passStream},
		{key: atLeastOnce, missing: missingBinary(), publishes: true, pass: passOurs()},
	}
}

// matrix measures under each condition whose key contains one of the parts.
func (m *meter) matrix(ctx context.Context, rows int, parts string, inside bool) error {
	for _, c := range conditions(rows) {
		if !wanted(c.key, parts) {
			continue
		}
		if c.load.rows == 0 {
			c.load = workload{rows: rows, perTx: 10}
		}
		var err error
		if c.key == smallBuffers && !inside {
			err = m.inNamespace(ctx, rows)
		} else {
			err = m.under(ctx, c)
		}
		if errors.Is(err, errSkipped) {
			fmt.Printf("%s: %v\n\n", c.name, err)
			m.all = append(m.all, &series{load: c.key, key: napping, note: err.Error()})
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func wanted(key, parts string) bool {
	for _, part := range strings.Split(parts, ",") {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

func (m *meter) under(ctx context.Context, c condition) error {
	if c.apply != nil {
		undo, err := c.apply(ctx, m.bed)
		if err != nil {
			return err
		}
		defer undo()
	}
	return m.measure(ctx, c.key, c.load, matrixContenders())
}

// inNamespace runs the condition of small buffers elsewhere and takes its passes over.
func (m *meter) inNamespace(ctx context.Context, rows int) error {
	f, err := os.CreateTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd, err := namespaceCommand("throughput", "-matrix", "-inside", "-conditions", smallBuffers, "-rows",
		fmt.Sprint(rows*matrixPart), "-rounds", fmt.Sprint(m.rounds), "-out", f.Name())
	if err != nil {
		return err
	}
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return fmt.Errorf("%w: no network namespace: %w", errSkipped, err)
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	_, all, err := parseOutput(f)
	if err != nil {
		return err
	}
	m.all = append(m.all, all...)
	for _, s := range all {
		for _, pass := range s.passes {
			if err := m.out.write(s, pass); err != nil {
				return err
			}
		}
	}
	return nil
}

const matrixHeader = "| | reader, napping | reader, never napping | cdc-outbox's stream | cdc-outbox to Kafka | " +
	"stream beside napping | Kafka beside napping | stream beside never napping | not slower than without naps |\n" +
	"|---|---|---|---|---|---|---|---|---|\n"

// noise is what two passes of the same program differ by.
const noise = .03

// reportMatrix prints rows/s under each condition, and whether the naps cost anything there.
func reportMatrix(w io.Writer, all []*series) {
	fmt.Fprint(w, matrixHeader)
	for _, key := range loads(all) {
		if conditionName(key) == "" {
			continue
		}
		reader, never := find(all, key, napping), find(all, key, neverNaps)
		stream, ours := find(all, key, ourStream), find(all, key, atLeastOnce)
		if reader == nil && stream == nil {
			fmt.Fprintf(w, "| %s | %s | | | | | | | |\n", conditionName(key), noteOf(all, key))
			continue
		}
		beside, verdict := stream.beside(never, rate), "no"
		if beside >= 1-noise {
			verdict = "yes"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", conditionName(key), rateOf(reader),
			rateOf(never), rateOf(stream), rateOf(ours), times(stream.beside(reader, rate)),
			times(ours.beside(reader, rate)), times(beside), verdict)
	}
}

func rateOf(s *series) string {
	v := s.median(rate)
	if math.IsNaN(v) {
		return ""
	}
	return thousands(v)
}

func noteOf(all []*series, load string) string {
	for _, s := range all {
		if s.load == load && s.note != "" {
			return s.note
		}
	}
	return ""
}

func conditionName(key string) string {
	for _, c := range conditions(0) {
		if c.key == key {
			return c.name
		}
	}
	return ""
}
