package reader

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

const (
	// maxExpanded bounds the expanded size of a batch. Batches are a few MB at most (max.message.bytes is for
	// compressed ones), and nothing but a fault compresses so well.
	maxExpanded = 256 << 20

	// maxZstdWindow is the window of the reference implementation's highest level.
	maxZstdWindow = 128 << 20
)

// expander decompresses batches into a buffer that it keeps, and believes no length that it has not seen the bytes of.
type expander struct {
	out  bytes.Buffer
	zstd *zstd.Decoder
}

// expand returns the batch's records uncompressed, valid until the next call.
func (e *expander) expand(codec int8, body []byte) ([]byte, error) {
	if codec == 0 {
		return body, nil
	}
	e.out.Reset()
	var err error
	switch compress.Compression(codec) {
	case compress.Gzip, compress.Lz4:
		r := compress.Compression(codec).Codec().NewReader(bytes.NewReader(body))
		err = e.copy(r)
		_ = r.Close()
	case compress.Zstd:
		if e.zstd == nil {
			e.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		}
		if err == nil {
			err = e.zstd.Reset(bytes.NewReader(body))
		}
		if err == nil {
			err = e.copy(e.zstd)
		}
	case compress.Snappy:
		err = e.snappy(body)
	default:
		err = fmt.Errorf("compression %d is unknown", codec)
	}
	if err != nil {
		return nil, wire.DataError(err.Error())
	}
	return e.out.Bytes(), nil
}

func (e *expander) copy(r io.Reader) error {
	n, err := e.out.ReadFrom(io.LimitReader(r, maxExpanded+1))
	if err == nil && n > maxExpanded {
		err = fmt.Errorf("the batch expands to more than %d bytes", maxExpanded)
	}
	return err
}

// xerial starts the framing that Java's snappy library puts around blocks: magic, version, lowest version that can read
// it, then blocks with their length in front (https://github.com/xerial/snappy-java, SnappyCodec). Other clients send
// one bare block. kafka-go's reader allocates whatever a length says.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func (e *expander) snappy(body []byte) error {
	if !bytes.HasPrefix(body, xerial) {
		return e.block(body)
	}
	c := wire.NewCursor(body)
	c.Bytes(len(xerial) + 8)
	for c.Left() > 0 {
		block := c.Bytes(int(c.Int32()))
		if err := c.Err(); err != nil {
			return err
		}
		if err := e.block(block); err != nil {
			return err
		}
	}
	return c.Err()
}

// snappyRatio: a copy element of three bytes makes 64 at most, so no block expands further.
const snappyRatio = 22

func (e *expander) block(b []byte) error {
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return err
	}
	if n > snappyRatio*len(b) || e.out.Len()+n > maxExpanded {
		return fmt.Errorf("a snappy block of %d bytes that says it expands to %d", len(b), n)
	}
	e.out.Grow(n)
	plain, err := snappy.Decode(e.out.AvailableBuffer()[:n], b)
	if err != nil {
		return err
	}
	_, err = e.out.Write(plain)
	return err
}
