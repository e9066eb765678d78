package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
)

// fill sets every field of a version to a random value.
func fill(random *rand.Rand, v reflect.Value, version int16) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if present, _ := inVersion(f.Tag.Get("kafka"), version); present && f.Name != "_" {
				fill(random, v.Field(i), version)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+random.IntN(3), 4))
		for i := range v.Len() {
			fill(random, v.Index(i), version)
		}
	case reflect.String:
		v.SetString("name"[:1+random.IntN(3)])
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 1)
	case reflect.Uint8:
		v.SetUint(random.Uint64N(256))
	default:
		v.SetInt(random.Int64N(100))
	}
}

// everyAnswer gives an answer of each version that is read, as it comes off the wire.
func everyAnswer(t testing.TB, give func(key protocol.ApiKey, version int16, want protocol.Message, frame []byte)) {
	random := rand.New(rand.NewPCG(7, 8))
	for key, typ := range answers {
		for version := key.MinVersion(); version <= key.MaxVersion(); version++ {
			msg := reflect.New(typ)
			fill(random, msg.Elem(), version)
			var frame bytes.Buffer
			require.NoError(t, protocol.WriteResponse(&frame, version, 1, msg.Interface().(protocol.Message)))
			give(key, version, msg.Interface().(protocol.Message), frame.Bytes())
		}
	}
}

func answerOf(frame []byte, key protocol.ApiKey, version int16) (protocol.Message, error) {
	w := &Conn{Reader: bufio.NewReader(bytes.NewReader(frame)), answered: new(atomic.Int64)}
	return w.ReadResponse(key, version, 1)
}

// allocated is how much memory f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAnswers: each answer that this program reads passes the judgement, in each version, and says what was written.
func TestAnswers(t *testing.T) {
	n := 0
	everyAnswer(t, func(key protocol.ApiKey, version int16, want protocol.Message, frame []byte) {
		n++
		got, err := answerOf(frame, key, version)
		require.NoError(t, err, "%s v%d", key, version)
		require.Equal(t, want, got, "%s v%d", key, version)
	})
	require.Greater(t, n, 40)
	_, err := answerOf([]byte{0, 0, 0, 4, 0, 0, 0, 1}, protocol.DeleteTopics, 0)
	require.ErrorContains(t, err, "version 0 is not read")
	_, err = answerOf([]byte{0, 0, 0, 4, 0, 0, 0, 1}, protocol.Metadata, 99)
	require.ErrorContains(t, err, "version 99 is not read")
}

// TestHostileAnswers: an answer that is cut off, or has a number in it that is wrong, is refused or decoded, in memory
// that its length pays for.
//
// Bug (producer): The frame of an answer was bounded, but kafka-go's decoder makes room for whatever a
// length within the frame says. Cost: a broker that answers Metadata with 70 bytes ended the process with "out of
// memory", which nothing can recover from.
func TestHostileAnswers(t *testing.T) {
	everyAnswer(t, func(key protocol.ApiKey, version int16, _ protocol.Message, whole []byte) {
		for cut := 8; cut < len(whole); cut++ {
			frame := bytes.Clone(whole[:cut])
			binary.BigEndian.PutUint32(frame, uint32(cut-4))
			_, err := answerOf(frame, key, version)
			require.Error(t, err, "%s v%d, %d of %d bytes", key, version, cut, len(whole))
		}
		memory := allocated(func() {
			for at := 8; at < len(whole); at++ {
				for _, wrong := range lies.WrongNumbers {
					frame := bytes.Clone(whole)
					copy(frame[at:], wrong)
					_, _ = answerOf(frame, key, version)
				}
			}
		})
		require.Less(t, memory, uint64(64<<20), "%s v%d", key, version)
	})
}

// TestAnswersThatExpand: elements are larger in memory than on the wire, which MaxDecoded bounds. A frame costs memory
// as its bytes come.
func TestAnswersThatExpand(t *testing.T) {
	n := MaxDecoded/int(reflect.TypeFor[metadata.ResponseTopic]().Size()) + 1
	body := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(n))
	body = append(body, make([]byte, 8*n)...) // topics of version 0 without a name
	require.ErrorContains(t, Judge(body, protocol.Metadata, 0), "expand to more than")
	require.Less(t, len(body), MaxResponse)

	memory := allocated(func() {
		_, err := answerOf([]byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 0}, protocol.Metadata, 0)
		require.ErrorContains(t, err, "closed the connection")
	})
	require.Less(t, memory, uint64(1<<20))
}

// FuzzAnswers: whatever a broker sends is decoded or refused, in memory that its length pays for.
func FuzzAnswers(f *testing.F) {
	everyAnswer(f, func(key protocol.ApiKey, version int16, _ protocol.Message, frame []byte) {
		f.Add(frame[8:], int16(key), version)
	})
	f.Fuzz(func(t *testing.T, body []byte, key, version int16) {
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), 0, 0, 0, 1)
		memory := allocated(func() { _, _ = answerOf(append(frame, body...), protocol.ApiKey(key), version) })
		require.Less(t, memory, uint64(1<<20+200*len(body)))
	})
}
