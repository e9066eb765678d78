package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The vectors of the Java client's UtilsTest.testMurmur2.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2([]byte(key))), "%q", key)
	}
}

// TestPartitionOf compares with franz-go, which copies the Java client, over many lengths and contents.
func TestPartitionOf(t *testing.T) {
	java := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	key := make([]byte, 0, 256)
	for i := range 256 {
		for _, n := range []int{1, 3, 12, 100} {
			require.Equal(t, java.Partition(&kgo.Record{Key: append([]byte{}, key...)}, n), int(partitionOf(key, n)),
				"%x of %d",
				key, n)
		}
		key = append(key, byte(i*37))
	}
}

func TestChoose(t *testing.T) {
	top := &topic{name: "t"}
	top.adopt(3)
	for _, part := range top.partitions {
		part.broker = &broker{}
	}
	require.Equal(t, int32(2), top.choose(2, []byte("abc")).index, "a record may name its partition")
	require.Nil(t, top.choose(3, nil), "which may not exist")
	require.Equal(t, partitionOf([]byte{}, 3), top.choose(-1, []byte{}).index, "an empty key is a key")

	first := top.choose(-1, nil)
	first.open = newBatch(first)
	require.Same(t, first, top.choose(-1, nil), "records without key gather while a batch is open")
	first.open = nil
	second := top.choose(-1, nil)
	require.NotSame(t, first, second, "and go elsewhere when it was taken")
	top.partitions[(second.index+1)%3].broker = nil
	require.Equal(t, (second.index+2)%3, top.choose(-1, nil).index, "but not to a partition without a leader")
}
