//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
)

// record is what a client sees of a record.
type record struct {
	Partition int32        `json:"p"`
	Offset    int64        `json:"o"`
	Timestamp int64        `json:"t"` // milliseconds
	Key       *string      `json:"k"` // base64
	Value     *string      `json:"v"` // SHA-256
	Headers   [][2]*string `json:"h"` // base64
}

// parse reads the lines of a client. Records are in the order of partition and offset.
func parse(t *testing.T, out []byte) (all []record) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r), lines.Text())
		all = append(all, r)
	}
	require.NoError(t, lines.Err())
	sorted(all)
	return all
}

// reference reads the topic with franz-go, which keeps null and empty apart.
func reference(ctx context.Context, t *testing.T, c *kafka.Cluster, topic string) (all []record) {
	t.Helper()
	committed, err := c.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer committed.Close()
	require.NoError(t, committed.Each(ctx, []string{topic}, func(r *kgo.Record) {
		one := record{
			Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: encoded(r.Key),
			Value: digest(r.Value), Headers: [][2]*string{},
		}
		for _, h := range r.Headers {
			one.Headers = append(one.Headers, [2]*string{encoded([]byte(h.Key)), encoded(h.Value)})
		}
		all = append(all, one)
	}))
	sorted(all)
	return all
}

func sorted(all []record) {
	slices.SortFunc(all, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}

func encoded(b []byte) *string {
	if b == nil {
		return nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return &s
}

func digest(b []byte) *string {
	if b == nil {
		return nil
	}
	sum := sha256.Sum256(b)
	s := hex.EncodeToString(sum[:])
	return &s
}

// header is the text of a header, empty where it has none.
func (r record) header(t *testing.T, key string) string {
	t.Helper()
	for _, h := range r.Headers {
		if name := decoded(t, h[0]); name == key {
			return decoded(t, h[1])
		}
	}
	return ""
}

func decoded(t *testing.T, s *string) string {
	t.Helper()
	if s == nil {
		return ""
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	require.NoError(t, err)
	return string(b)
}
