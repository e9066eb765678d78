package kafka

import (
	"bytes"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/compress"
)

// codecOf returns the codec for the configured name, nil for none.
func codecOf(name string) (compress.Codec, error) {
	switch name {
	case "", "none":
		return nil, nil
	case "gzip", "snappy", "lz4", "zstd":
		var c compress.Compression
		if err := c.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		return c.Codec(), nil
	default:
		return nil, fmt.Errorf("compression %q is not one of none, gzip, snappy, lz4, zstd", name)
	}
}

// finish compresses the sealed batch, once. The connection's writer calls it, so that compression neither holds
// the producer's lock nor delays the goroutine that reads the WAL. A batch that does not shrink goes as it is, so
// that its size never exceeds what Produce sealed it at.
func (b *batch) finish(codec compress.Codec) error {
	if b.finished {
		return nil
	}
	b.finished = true
	if codec == nil {
		return nil
	}

	out := chunkWriter{}
	w := codec.NewWriter(&out)
	for _, c := range b.chunks {
		if _, err := w.Write(c.buf); err != nil {
			out.free()
			return fmt.Errorf("compress with %s: %w", codec.Name(), err)
		}
	}
	if err := w.Close(); err != nil {
		out.free()
		return fmt.Errorf("compress with %s: %w", codec.Name(), err)
	}
	if out.n >= b.payload {
		out.free()
		return nil
	}
	for _, c := range b.chunks {
		c.free()
	}
	b.chunks = append(b.chunks[:0], out.chunks...)
	b.payload = out.n
	b.codec = codec.Code()
	b.stamped = false
	return nil
}

// expand returns the batch's records, uncompressed and in one piece.
func (b *batch) expand() ([]byte, error) {
	parts := make([]io.Reader, 0, len(b.chunks))
	for _, c := range b.chunks {
		parts = append(parts, bytes.NewReader(c.buf))
	}
	raw := io.MultiReader(parts...)
	if b.codec == 0 {
		return io.ReadAll(raw)
	}
	r := compress.Compression(b.codec).Codec().NewReader(raw)
	defer r.Close()
	return io.ReadAll(r)
}

// chunkWriter collects a codec's output in chunks.
type chunkWriter struct {
	chunks []*chunk
	n      int
}

func (w *chunkWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if len(w.chunks) == 0 || len(w.last().buf) == cap(w.last().buf) {
			previous := 1 << (minChunkBits + 1)
			if len(w.chunks) > 0 {
				previous = cap(w.last().buf)
			}
			w.chunks = append(w.chunks, newChunk(nextChunkSize(previous, 1)))
		}
		c := w.last()
		n := min(len(rest), cap(c.buf)-len(c.buf))
		c.buf = append(c.buf, rest[:n]...)
		rest = rest[n:]
	}
	w.n += len(p)
	return len(p), nil
}

func (w *chunkWriter) last() *chunk { return w.chunks[len(w.chunks)-1] }

func (w *chunkWriter) free() {
	for _, c := range w.chunks {
		c.free()
	}
}
