package kafka

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"
	kafkalz4 "github.com/segmentio/kafka-go/compress/lz4"
)

// codecOf returns the codec for the configured name, nil for none.
func codecOf(name string) (compress.Codec, error) {
	switch name {
	case "", "none":
		return nil, nil
	case "lz4":
		return &lz4Codec{}, nil
	case "gzip", "snappy", "zstd":
		var c compress.Compression
		if err := c.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		return c.Codec(), nil
	default:
		return nil, fmt.Errorf("compression %q is not one of none, gzip, snappy, lz4, zstd", name)
	}
}

// lz4Codec writes blocks of 64 KiB, as the Java client does (Lz4BlockOutputStream). kafka-go's writer holds buffers for
// blocks of 4 MiB, several times a whole batch.
type lz4Codec struct {
	kafkalz4.Codec
	writers sync.Pool
}

func (c *lz4Codec) NewWriter(w io.Writer) io.WriteCloser {
	z, _ := c.writers.Get().(*lz4.Writer)
	if z == nil {
		z = lz4.NewWriter(nil)
		_ = z.Apply(lz4.BlockSizeOption(lz4.Block64Kb)) // fails for values that do not exist
	}
	z.Reset(w)
	return &lz4Writer{z, c}
}

type lz4Writer struct {
	*lz4.Writer
	codec *lz4Codec
}

func (w *lz4Writer) Close() error {
	err := w.Writer.Close()
	w.Writer.Reset(nil) // holds on to nothing of the batch
	w.codec.writers.Put(w.Writer)
	return err
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

	out := chunkWriter{first: min(max(b.payload/4, 1<<pageBits), 8<<pageBits)}
	w := codec.NewWriter(&out)
	for c := range b.chunks() {
		if _, err := w.Write(c); err != nil {
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
	b.freeChunks()
	b.full, b.tail = append(b.full, out.full...), out.tail
	b.payload = out.n
	b.codec = codec.Code()
	b.stamped = false
	return nil
}

// expand returns the batch's records, uncompressed and in one piece.
func (b *batch) expand() ([]byte, error) {
	if b.codec == 0 {
		data := make([]byte, 0, b.payload)
		for c := range b.chunks() {
			data = append(data, c...)
		}
		return data, nil
	}
	parts := make([]io.Reader, 0, len(b.full)+1)
	for c := range b.chunks() {
		parts = append(parts, bytes.NewReader(c))
	}
	r := compress.Compression(b.codec).Codec().NewReader(io.MultiReader(parts...))
	defer r.Close()
	return io.ReadAll(r)
}

// chunkWriter collects a codec's output in chunks.
type chunkWriter struct {
	first int // size of the first chunk
	full  [][]byte
	tail  []byte
	n     int
}

func (w *chunkWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if len(w.tail) == cap(w.tail) {
			size := w.first
			if w.tail != nil {
				size = 1 << chunkBits
				w.full = append(w.full, w.tail)
			}
			w.tail = newChunk(size)
		}
		n := min(len(rest), cap(w.tail)-len(w.tail))
		w.tail = append(w.tail, rest[:n]...)
		rest = rest[n:]
	}
	w.n += len(p)
	return len(p), nil
}

func (w *chunkWriter) free() {
	for _, c := range w.full {
		freeChunk(c)
	}
	freeChunk(w.tail)
}
