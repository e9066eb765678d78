package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/require"
)

// randomAnswer has errors, messages, null messages, and topics without partitions.
func randomAnswer(random *rand.Rand, version int16) *produce.Response {
	res := &produce.Response{ThrottleTimeMs: int32(random.IntN(100))}
	text := func() string { return string(make([]byte, random.IntN(3)*random.IntN(40))) }
	for i := range random.IntN(5) {
		topic := produce.ResponseTopic{Topic: fmt.Sprint("topic-", i)}
		for range random.IntN(40) {
			p := produce.ResponsePartition{
				Partition: random.Int32(), ErrorCode: int16(random.IntN(120) - 1), BaseOffset: random.Int64() - 1,
				LogAppendTime: random.Int64(),
			}
			if version >= 5 {
				p.LogStartOffset = random.Int64()
			}
			if version >= 8 {
				p.ErrorMessage = text()
				for range random.IntN(3) {
					e := produce.ResponseError{BatchIndex: random.Int32(), BatchIndexErrorMessage: text()}
					p.RecordErrors = append(p.RecordErrors, e)
				}
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		res.Topics = append(res.Topics, topic)
	}
	return res
}

func encoded(t testing.TB, version int16, id int32, res *produce.Response) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, protocol.WriteResponse(&buf, version, id, res))
	return buf.Bytes()
}

// theirs is an answer as kafka-go decodes it, and ours the same as our decoder reads it, in one form.
func theirs(res *produce.Response) string {
	var s []byte
	for _, t := range res.Topics {
		s = fmt.Appendf(s, "%q:", t.Topic)
		for _, p := range t.Partitions {
			said := ""
			for _, e := range p.RecordErrors {
				said = cmp.Or(said, e.BatchIndexErrorMessage)
			}
			s = fmt.Appendf(s, " %d %d %d %q;", p.Partition, p.ErrorCode, p.BaseOffset, cmp.Or(said, p.ErrorMessage))
		}
	}
	return string(fmt.Appendf(s, "%d", res.ThrottleTimeMs))
}

func ours(a *ProduceAnswer) string {
	var s []byte
	for _, t := range a.Topics {
		s = fmt.Appendf(s, "%q:", t.Name)
		for _, p := range t.Partitions {
			s = fmt.Appendf(s, " %d %d %d %q;", p.Index, p.Code, p.BaseOffset, p.Message)
		}
	}
	return string(fmt.Appendf(s, "%d", a.Throttle/time.Millisecond))
}

// TestAnsweredWords: what a broker says is bounded, and nothing in it is for a terminal to obey.
func TestAnsweredWords(t *testing.T) {
	for name, test := range map[string]struct {
		code int16
		said string
		want string
	}{
		"none":               {87, "", ""},
		"not about an error": {0, "hello", ""},
		"a sentence":         {87, "No key.\n", "No key.\ufffd"},
		"long":               {87, strings.Repeat("é", mostWords), strings.Repeat("é", mostWords/2)},
		"cut in a character": {87, "a" + strings.Repeat("é", mostWords), "a" + strings.Repeat("é", mostWords/2-1)},
		"hostile":            {87, "\x1b[2Ja\u202eb\xff", "\ufffd[2Ja\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			p := AnsweredPartition{Code: test.code, Message: []byte(test.said)}
			require.Equal(t, test.want, p.Words())
		})
	}
}

// TestProduceAnswers: an answer of any version says the same to kafka-go's decoder, whatever the answer before it said.
func TestProduceAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a ProduceAnswer
	for version := int16(minProduceAnswer); version <= maxProduceAnswer; version++ {
		var stream bytes.Buffer
		var want []string
		for id := range int32(200) {
			data := encoded(t, version, id, randomAnswer(random, version))
			_, res, err := protocol.ReadResponse(bytes.NewReader(data), protocol.Produce, version)
			require.NoError(t, err)
			want = append(want, theirs(res.(*produce.Response)))
			stream.Write(data)
		}
		w := &Conn{Reader: bufio.NewReaderSize(&stream, 16), answered: new(atomic.Int64)}
		for id := range int32(200) {
			require.NoError(t, w.ReadProduceAnswer(&a, version, id))
			require.Equal(t, want[id], ours(&a), "version %d", version)
		}
		require.ErrorContains(t, w.ReadProduceAnswer(&a, version, 200), "closed the connection")
	}
}

// TestProduceVersions: what is negotiated is what can be decoded.
func TestProduceVersions(t *testing.T) {
	key := protocol.Produce
	require.EqualValues(t, minProduceAnswer, max(key.MinVersion(), minProduceAnswer))
	require.EqualValues(t, maxProduceAnswer, key.MaxVersion())
	var a ProduceAnswer
	body := make([]byte, 8)
	require.ErrorContains(t, a.decode(body, minProduceAnswer-1), "version 2")
	require.ErrorContains(t, a.decode(body, maxProduceAnswer+1), "version 9")
}

// TestProduceAnswersCutShort: no beginning of an answer is taken for an answer, and a count claims no memory.
func TestProduceAnswersCutShort(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for version := int16(minProduceAnswer); version <= maxProduceAnswer; version++ {
		body := encoded(t, version, 7, randomAnswer(random, version))[8:]
		var a ProduceAnswer
		for n := range body {
			require.Error(t, a.decode(body[:n:n], version), "%d of %d bytes", n, len(body))
		}
		require.NoError(t, a.decode(body, version))
		require.Error(t, a.decode([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0}, version))
		require.Error(t, a.decode([]byte{0, 0, 0, 1, 0, 1, 't', 0x7f, 0xff, 0xff, 0xff, 0, 0}, version))
	}
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\n\r\n", "\x7f\xff\xff\xff\x00\x00\x00\x07",
		"\x00\x00\x00\x0a\x00\x00\x00\x06", "", "\x00",
		"\x00\x00\x00\x04\x00\x00\x00\x07", "\x00\x00\x00\x0a\x00\x00\x00\x07\x00",
	} {
		w := &Conn{Reader: bufio.NewReader(bytes.NewReader([]byte(answer))), answered: new(atomic.Int64)}
		require.Error(t, w.ReadProduceAnswer(&ProduceAnswer{}, 8, 7), "%q", answer)
	}
}

// TestProduceAnswersCostNoMemory: of a steady load each answer is read into the memory of the last.
func TestProduceAnswersCostNoMemory(t *testing.T) {
	res := &produce.Response{}
	for i := range 100 {
		topic := produce.ResponseTopic{Topic: fmt.Sprint("topic-", i)}
		topic.Partitions = make([]produce.ResponsePartition, 12)
		res.Topics = append(res.Topics, topic)
	}
	data := encoded(t, 8, 7, res)
	reader := bytes.NewReader(data)
	w := &Conn{Reader: bufio.NewReader(reader), answered: new(atomic.Int64)}
	var a ProduceAnswer
	require.Zero(t, testing.AllocsPerRun(100, func() {
		reader.Reset(data)
		w.Reader.Reset(reader)
		require.NoError(t, w.ReadProduceAnswer(&a, 8, 7))
	}))
	require.Len(t, a.Topics, 100)
}

// FuzzProduceAnswer: whatever a server sends is decoded or refused, in memory that its length pays for.
func FuzzProduceAnswer(f *testing.F) {
	random := rand.New(rand.NewPCG(5, 6))
	for version := int16(minProduceAnswer); version <= maxProduceAnswer; version++ {
		f.Add(encoded(f, version, 7, randomAnswer(random, version))[8:], version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		var a ProduceAnswer
		err := a.decode(body, version)
		n := 0
		for _, topic := range a.Topics {
			n += len(topic.Partitions)
		}
		require.LessOrEqual(t, n, len(body)/22+1)
		require.LessOrEqual(t, len(a.Topics), len(body)/6+1)
		if err == nil {
			_ = ours(&a)
		}
	})
}
