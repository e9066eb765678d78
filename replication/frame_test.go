package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// frame is a message of the server with n bytes of body.
func frame(typ byte, n int) []byte {
	pattern := make([]byte, 256)
	for i := range pattern {
		pattern[i] = byte(i)
	}
	b := binary.BigEndian.AppendUint32([]byte{typ}, uint32(n+4))
	return append(b, bytes.Repeat(pattern, n/256+1)[:n]...)
}

func TestFramesMessagesOfAllSizes(t *testing.T) {
	sizes := []int{
		0, 1, 500, frameBuffer - 6, frameBuffer - 5, frameBuffer, 3*frameBuffer + 7, 10, 0, 2 * frameBuffer,
		frameBuffer / 2, frameBuffer/2 + 100,
	}
	var wire []byte
	for _, n := range sizes {
		wire = append(wire, frame('d', n)...)
	}
	f := newFrames(bytes.NewReader(wire), 0)
	for _, n := range sizes {
		typ, body, err := f.next()
		require.NoError(t, err)
		require.Equal(t, byte('d'), typ)
		require.Equal(t, frame('d', n)[frameHeader:], append([]byte{}, body...))
	}
	_, _, err := f.next()
	require.Equal(t, io.EOF, err)
	require.Len(t, f.buf, frameBuffer, "the buffer falls back after a large message")
}

func TestFramesImpossibleLengths(t *testing.T) {
	for _, length := range []uint32{0, 3, maxFrame + 1, 1 << 31, 1<<32 - 1} {
		f := newFrames(bytes.NewReader(binary.BigEndian.AppendUint32([]byte{'d'}, length)), 0)
		_, _, err := f.next()
		var bad *frameError
		require.ErrorAs(t, err, &bad)
	}
}

// TestFramesLengthAllocatesNothing: the buffer grows as bytes arrive, not on the word of a header.
func TestFramesLengthAllocatesNothing(t *testing.T) {
	f := newFrames(bytes.NewReader(binary.BigEndian.AppendUint32([]byte{'d'}, 1<<30)), 0)
	_, _, err := f.next()
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.Len(t, f.buf, frameBuffer)
}

// A message of the stream beyond the bound is handed out without its long values, whatever reads interrupt it. The
// buffer does not grow for it.
func TestFramesShortenLongMessages(t *testing.T) {
	insert := []byte("I\x00\x00\x00\x07N\x00\x02t\x00\x00\x00\x02e1t")
	insert = binary.BigEndian.AppendUint32(insert, 3_000_000)
	insert = append(insert, make([]byte, 3_000_000)...)
	header := append([]byte{'w'}, bytes.Repeat([]byte{9}, xlogHeader-1)...)
	wire := binary.BigEndian.AppendUint32(append(frame('d', 300), 'd'), uint32(4+len(header)+len(insert)))
	wire = append(append(append(wire, header...), insert...), frame('d', 40)...)

	var pieces [][]byte
	for rest := wire; len(rest) > 0; {
		n := min(len(rest), 1+len(pieces)*7, frameBuffer)
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	f := newFrames(&stutter{pieces: pieces}, 1<<20)
	next := func() (byte, []byte) {
		for {
			typ, body, err := f.next()
			require.LessOrEqual(t, len(f.buf), frameBuffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			require.NoError(t, err)
			return typ, body
		}
	}
	typ, body := next()
	require.Equal(t, []any{byte('d'), 300}, []any{typ, len(body)})
	typ, body = next()
	require.Equal(t, byte(shortened), typ)
	require.Equal(t, header, body[:xlogHeader])
	require.Equal(t, "I\x00\x00\x00\x07N\x00\x02t\x00\x00\x00\x02e1x\x00\x2d\xc6\xc0", string(body[xlogHeader:]))
	typ, body = next()
	require.Equal(t, []any{byte('d'), 40}, []any{typ, len(body)})
}

// No other message may be longer than the bound: neither an error of the server nor a keepalive.
func TestFramesOtherLongMessages(t *testing.T) {
	for _, head := range []string{"E\x00\x20\x00\x00", "d\x00\x20\x00\x00k"} {
		f := newFrames(io.MultiReader(strings.NewReader(head), bytes.NewReader(make([]byte, 3<<20))), 1<<20)
		_, _, err := f.next()
		var bad *frameError
		require.ErrorAs(t, err, &bad)
	}
}

// stutter returns one piece a read, a deadline error in between.
type stutter struct {
	pieces [][]byte
	late   bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.late = !s.late; s.late {
		return 0, os.ErrDeadlineExceeded
	}
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	s.pieces = s.pieces[1:]
	return n, nil
}

func TestFramesReadingContinuesAfterDeadline(t *testing.T) {
	wire := append(frame('d', 300), frame('k', 20)...)
	f := newFrames(&stutter{pieces: [][]byte{wire[:3], wire[3:100], wire[100:310], wire[310:]}}, 0)
	var types []byte
	for {
		typ, _, err := f.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			require.Equal(t, io.EOF, err)
			break
		}
		types = append(types, typ)
	}
	require.Equal(t, "dk", string(types))
}

// TestMessageReaderNeverReadsAhead: however greedy the reader above, it gets no byte beyond the message it is in.
// TestGoldenByteByByte feeds the transcripts through the frame reader in the smallest pieces.
func TestGoldenByteByByte(t *testing.T) {
	files, err := filepath.Glob("../testdata/pgoutput/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		whole := newFrames(bytes.NewReader(raw), 0)
		slow := newFrames(&dribble{bytes.NewReader(raw)}, 0)
		for {
			typ, body, err := whole.next()
			typ2, body2, err2 := slow.next()
			require.Equal(t, err, err2)
			require.Equal(t, typ, typ2)
			require.Equal(t, body, body2)
			if err != nil {
				break
			}
		}
	}
}

// Bug (stream): pgconn's reader had read ahead into the stream when the stream took the connection from it. Cost: lost
// first messages.
func TestMessageReaderNeverReadsAhead(t *testing.T) {
	wire := append(append(frame('R', 4), frame('Z', 0)...), frame('d', 700)...)
	under := bytes.NewReader(wire)
	m := &messageReader{r: under}
	greedy := make([]byte, 8192)
	for range 2 {
		before := under.Len()
		n := 0
		for first := true; first || !m.between(); first = false {
			k, err := m.Read(greedy)
			require.NoError(t, err)
			n += k
		}
		require.Equal(t, before-n, under.Len())
	}
	require.Equal(t, len(frame('d', 700)), under.Len())

	slow := &messageReader{r: &dribble{bytes.NewReader(wire)}}
	all, err := io.ReadAll(slow)
	require.NoError(t, err)
	require.Equal(t, wire, all)
	require.True(t, slow.between())
}

func BenchmarkFrames(b *testing.B) {
	var wire []byte
	for len(wire) < 512<<10 {
		wire = append(wire, frame('d', 400)...)
	}
	src := bytes.NewReader(wire)
	f := newFrames(src, 0)
	b.SetBytes(405)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := f.next(); errors.Is(err, io.EOF) {
			src.Reset(wire)
		}
	}
}

// trickle hands out a few bytes at a time, as a socket may.
type trickle struct {
	data []byte
	step int
}

func (s *trickle) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[:min(s.step, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}

// FuzzFrames: whatever arrives, in whatever pieces, the messages are the messages in it, the end is an error, and a
// length that is only claimed costs nothing.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{'d', 0, 0, 0, 5, 'x', 'c', 0, 0, 0, 4}, uint8(1))
	f.Add(append([]byte{'d', 0, 0, 1, 4}, make([]byte, 256)...), uint8(7))
	f.Add([]byte{'d', 0x3f, 0xff, 0xff, 0xff, 'x'}, uint8(3))
	f.Add([]byte{'d', 0, 0, 0, 3}, uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var got [][]byte
		var err error
		took := testkit.Allocated(func() {
			got = got[:0]
			first := make([]byte, 64)
			fr := &frames{r: &trickle{data, int(step) + 1}, buf: first, first: first, long: maxFrame}
			for {
				typ, body, e := fr.next()
				if err = e; e != nil {
					return
				}
				got = append(got, append([]byte{typ}, body...))
			}
		})
		if took > testkit.AllocationBound(data) {
			t.Fatalf("%d bytes made the reader allocate %d: %x", len(data), took, data)
		}
		rest := data
		for _, msg := range got {
			n := int(binary.BigEndian.Uint32(rest[1:])) + 1
			if msg[0] != rest[0] || !bytes.Equal(msg[1:], rest[frameHeader:n]) {
				t.Fatalf("%x came out of %x", msg, data)
			}
			rest = rest[n:]
		}
		var bad *frameError
		switch {
		case len(rest) == 0 && !errors.Is(err, io.EOF), len(rest) > 0 && !errors.Is(err, io.ErrUnexpectedEOF) &&
			!errors.As(err, &bad):
			t.Fatalf("%d bytes are left and the error is %v", len(rest), err)
		case len(rest) >= frameHeader:
			if n := binary.BigEndian.Uint32(rest[1:]); n >= 4 && n <= maxFrame && uint64(len(rest)) > uint64(n) {
				t.Fatalf("the message at %x was not handed out: %v", rest, err)
			}
		}
	})
}
