package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestProduce(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			c := newCluster(t, overTCP, kfake.NumBrokers(3), kfake.SeedTopics(5, "orders", "users"))
			r := newRig(t, c, func(cfg *Config) {
				cfg.Compression = compression
				cfg.MaxBatchBytes = 4000
				cfg.MaxRequestBytes = 10000
			})
			for i := range fewer(3000) {
				r.produce([]string{"orders", "users"}[i%2], fmt.Sprint("k", i%17))
				if i%100 == 0 {
					r.Flush()
				}
			}
			r.check()
			require.Empty(t, r.Trouble())
			require.EqualValues(t, 10, r.Partitions())
		})
	}
}
