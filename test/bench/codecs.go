package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// codecLoad is the load that each codec of Kafka's batches carries.
const codecLoad = "codecs"

const codecPrefix = "codec-"

func codecContenders() []contender {
	var all []contender
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		all = append(all, contender{
			key: codecPrefix + codec, missing: missingBinary(), publishes: true,
			pass: passOurs("CDC_OUTBOX_KAFKA_COMPRESSION=" + codec),
		})
	}
	return all
}

// codecs measures the connector with each codec.
func (m *meter) codecs(ctx context.Context, l workload) error {
	if err := m.measure(ctx, codecLoad, l, codecContenders()); err != nil {
		return err
	}
	reportCodecs(os.Stdout, m.all)
	return nil
}

const codecHeader = "| `kafka.compression` | rows/s, median (lowest–highest) | beside none | client CPU s/M | " +
	"bytes per record, on the wire and on the broker's disk |\n|---|---|---|---|---|\n"

// reportCodecs prints what each codec costs and saves. Batches lie on the broker's disk as they came.
func reportCodecs(w io.Writer, all []*series) {
	none := find(all, codecLoad, codecPrefix+"none")
	if none == nil {
		return
	}
	fmt.Fprint(w, codecHeader)
	for _, s := range all {
		if s.load == codecLoad && len(s.passes) > 0 {
			fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.0f |\n", strings.TrimPrefix(s.key, codecPrefix), s.spread(),
				times(s.beside(none, rate)), s.median(client),
				s.median(func(f figures) float64 { return f.BytesOnLog }))
		}
	}
}
