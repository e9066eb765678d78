package wire

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOffsetFetchAsksForAStableOffset: another implementation reads the request, and its answer is read.
func TestOffsetFetchAsksForAStableOffset(t *testing.T) {
	t.Parallel()
	for _, stable := range []bool{true, false} {
		a, b := net.Pipe()
		asked := make(chan kmsg.OffsetFetchRequest, 1)
		go func() {
			req := kmsg.NewOffsetFetchRequest()
			defer func() { asked <- req }()
			size := make([]byte, 4)
			if _, err := io.ReadFull(b, size); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(size))
			if _, err := io.ReadFull(b, frame); err != nil {
				return
			}
			req.Version = int16(binary.BigEndian.Uint16(frame[2:]))
			body := frame[8+2+len("client")+1:] // key, version, id, client and tags
			if err := req.ReadFrom(body); err != nil {
				return
			}
			res := req.ResponseKind().(*kmsg.OffsetFetchResponse)
			topic, partition := kmsg.NewOffsetFetchResponseTopic(), kmsg.NewOffsetFetchResponseTopicPartition()
			text := "position"
			topic.Topic, partition.Metadata = req.Topics[0].Topic, &text
			topic.Partitions = append(topic.Partitions, partition)
			res.Topics = append(res.Topics, topic)
			answer := append([]byte{0, 0, 0, 0}, frame[4:8]...)
			answer = res.AppendTo(append(answer, 0)) // tags
			binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
			_, _ = b.Write(answer)
		}()
		w := newWire(a, "broker:9092", "client")
		metadata, code, err := w.FetchOffset("group", "topic", stable, time.Minute)
		req := <-asked
		require.NoError(t, b.Close()) // a pipe with one end takes no deadline any more
		require.NoError(t, err)
		require.Equal(t, []any{"position", int16(0)}, []any{metadata, code})
		require.Equal(t, []any{"group", stable}, []any{req.Group, req.RequireStable})
		require.Equal(t, "topic", req.Topics[0].Topic)
		require.Equal(t, []int32{0}, req.Topics[0].Partitions)
		require.NoError(t, a.Close())
	}
}
