package reader

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	// fetchBytes is the size that is asked for at once. A batch that is larger comes whole all the same (KIP-74).
	fetchBytes = 1 << 20
	fetchWait  = 500 * time.Millisecond

	// The versions of Fetch: from 4 on it knows read_committed, after 11 the request has another shape.
	fetchMin, fetchMax = 4, 11
)

// outOfRange is the code for an offset that is not in the log any more.
const outOfRange = 1

// goneError: records were deleted before they were read.
type goneError struct{ offset, start int64 }

func (e *goneError) Error() string {
	return fmt.Sprintf("offset %d is no longer in the log, which starts at %d", e.offset, e.start)
}

// fetchBuffer holds the last answer and the last batch uncompressed, for use again.
type fetchBuffer struct {
	needle []byte // only records of batches that hold these bytes are given; nil: all. See Search
	frame  []byte
	plain  expander
	msg    sink.Message
	names  map[string]string // header names
}

// fetchOnce reads the records that one answer holds of the span from at on, and returns where to go on and whether to.
func (r *Reader) fetchOnce(
	ctx context.Context, s sink.Span, at int64, give func(*sink.Message) bool,
) (next int64, more bool, err error) {
	w, err := r.leader(ctx, s)
	if err != nil {
		return at, true, err
	}
	version, err := w.Version(protocol.Fetch)
	if err != nil || version < fetchMin {
		return at, true, tooOld(w, protocol.Fetch)
	}
	version = min(version, fetchMax)
	answer, err := r.askFetch(ctx, w, version, s, at)
	if err != nil {
		return at, true, err
	}
	switch {
	case answer.code == outOfRange:
		start, err := r.offset(ctx, s, earliest)
		if err == nil {
			err = &goneError{at, start}
		}
		return at, true, err
	case answer.code != 0:
		return at, true, &wire.CodeError{API: "Fetch", Code: answer.code}
	case len(answer.records) == 0 && answer.stable < s.End:
		return at, true, fmt.Errorf("the log now ends at offset %d, before %d", answer.stable, s.End)
	case len(answer.records) == 0 && answer.throttled == 0:
		return s.End, true, nil // compaction may leave nothing at the end of the range
	}
	return r.fetch.scan(answer, s, at, give)
}

// askFetch sends the request. The answer's records are valid until the next one.
func (r *Reader) askFetch(
	ctx context.Context, w *wire.Conn, version int16, s sink.Span, at int64,
) (*fetchAnswer, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	size := int32(fetchBytes)
	if r.fetch.needle != nil {
		size = searchBytes
	}
	answer, err := r.exchangeFetch(w, version, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(fetchWait / time.Millisecond), MinBytes: 1, MaxBytes: size,
		IsolationLevel: readCommitted, SessionID: 0, SessionEpoch: -1, // no session
		Topics: []fetch.RequestTopic{{Topic: s.Topic, Partitions: []fetch.RequestPartition{{
			Partition: s.Partition, CurrentLeaderEpoch: -1, FetchOffset: at, LogStartOffset: -1,
			PartitionMaxBytes: size,
		}}}},
	})
	if err != nil {
		r.drop(w.Addr)
		return nil, err
	}
	return answer, nil
}

func (r *Reader) exchangeFetch(w *wire.Conn, version int16, req *fetch.Request) (*fetchAnswer, error) {
	if err := w.Net.SetDeadline(time.Now().Add(r.cluster.RequestTimeout)); err != nil {
		return nil, err
	}
	id := w.NextID()
	if err := protocol.WriteRequest(w.Net, version, id, w.ClientID, req); err != nil {
		return nil, fmt.Errorf("send Fetch to %s: %w", w.Addr, err)
	}
	frame, err := readFrame(w.Reader, id, r.fetch.frame)
	if err != nil {
		return nil, fmt.Errorf("receive Fetch from %s: %w", w.Addr, err)
	}
	r.fetch.frame = frame
	answer, err := parseFetch(frame, version)
	if err != nil {
		return nil, err
	}
	return answer, w.Net.SetDeadline(time.Time{})
}

// readFrame reads all of an answer after its correlation id, into buf where it fits.
func readFrame(br *bufio.Reader, id int32, buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return nil, wire.NoEOF(err)
	}
	left, got, err := answerHead(head[:])
	if err != nil {
		return nil, err
	}
	if got != id {
		return nil, fmt.Errorf("answer %d where answer %d was due", got, id)
	}
	return wire.ReadFull(br, buf, left)
}

// answerHead reads an answer's length and correlation id, and returns how many bytes follow them.
func answerHead(head []byte) (left int, id int32, err error) {
	size := int32(binary.BigEndian.Uint32(head))
	if size < 4 || size > wire.MaxResponse {
		return 0, 0, wire.DataError(fmt.Sprintf("an answer of %d bytes", size))
	}
	return int(size) - 4, int32(binary.BigEndian.Uint32(head[4:])), nil
}

// fetchAnswer is a Fetch answer about one partition.
type fetchAnswer struct {
	throttled int32
	code      int16
	stable    int64 // last stable offset
	aborted   []abortedTransaction
	records   []byte // record batches; the last may be cut off
}

// abortedTransaction: the records that the producer wrote transactionally from the offset on were aborted, up to its
// next abort marker.
type abortedTransaction struct{ producer, first int64 }

// parseFetch decodes the answer's body (https://kafka.apache.org/protocol, Fetch). kafka-go's own decoder would also
// decode the records, and forget the aborted transactions.
func parseFetch(frame []byte, version int16) (*fetchAnswer, error) {
	c := wire.NewCursor(frame)
	a := &fetchAnswer{throttled: c.Int32()}
	if version >= 7 {
		a.code = c.Int16()
		c.Int32() // session
	}
	if a.code != 0 {
		return a, c.Err()
	}
	if topics := c.Int32(); topics != 1 {
		return nil, wire.DataError(fmt.Sprintf("a Fetch answer with %d topics where one was asked for", topics))
	}
	c.Bytes(int(c.Int16())) // name
	if partitions := c.Int32(); partitions != 1 {
		return nil, wire.DataError(fmt.Sprintf("a Fetch answer with %d partitions where one was asked for", partitions))
	}
	c.Int32() // partition
	a.code = c.Int16()
	c.Int64() // high watermark
	a.stable = c.Int64()
	if version >= 5 {
		c.Int64() // start of the log
	}
	n := int(c.Int32()) // -1: none
	if n > c.Left()/16 {
		return nil, wire.DataError(fmt.Sprintf("a Fetch answer of %d bytes with %d aborted transactions", len(frame),
			n))
	}
	for range n {
		a.aborted = append(a.aborted, abortedTransaction{c.Int64(), c.Int64()})
	}
	if version >= 11 {
		c.Int32() // preferred replica; none without a rack
	}
	if n := int(c.Int32()); n > 0 {
		a.records = c.Bytes(n)
	}
	slices.SortFunc(a.aborted, func(x, y abortedTransaction) int { return int(min(max(x.first-y.first, -1), 1)) })
	return a, c.Err()
}
