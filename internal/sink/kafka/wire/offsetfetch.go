package wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// offsetFetchVersion is the first with require_stable (KIP-447, Kafka 2.5): without it the coordinator answers with the
// offset before a transaction whose commit marker it has not worked off yet, and records would be sent again.
// kafka-go's package ends at version 5, so this request is written here.
const offsetFetchVersion = 7

// FetchOffset returns the metadata of the group's offset for partition 0 of the topic, and the error code. With stable,
// an offset that is about to be replaced by a transaction's is refused with UnstableOffsetCommit.
func (w *Conn) FetchOffset(
	group, topic string, stable bool, timeout time.Duration,
) (metadata string, code int16, err error) {
	if err := w.renew(timeout); err != nil {
		return "", 0, err
	}
	be := binary.BigEndian
	id := w.NextID()
	req := be.AppendUint32(nil, 0)
	req = be.AppendUint16(req, uint16(protocol.OffsetFetch))
	req = be.AppendUint16(req, offsetFetchVersion)
	req = be.AppendUint32(req, uint32(id))
	req = AppendString(req, w.ClientID)
	req = append(req, 0) // tagged fields of the header
	req = appendCompact(req, group)
	req = append(req, 1+1) // topics
	req = appendCompact(req, topic)
	req = append(req, 1+1, 0, 0, 0, 0)    // partition indexes: [0]
	req = append(req, 0, flag(stable), 0) // tagged fields of the topic, require_stable, tagged fields
	be.PutUint32(req, uint32(len(req)-4))

	if err := w.Net.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", 0, err
	}
	if _, err := w.Net.Write(req); err != nil {
		return "", 0, fmt.Errorf("send OffsetFetch to %s: %w", w.Addr, err)
	}
	size, err := w.header(id)
	if err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.Addr, err)
	}
	frame, err := ReadFull(w.Reader, nil, int(size)+4)
	if err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.Addr, err)
	}
	metadata, code, err = parseOffsetFetch(frame[8:])
	if err != nil {
		return "", 0, fmt.Errorf("receive OffsetFetch from %s: %w", w.Addr, err)
	}
	return metadata, code, w.Net.SetDeadline(time.Time{})
}

// parseOffsetFetch reads the body of a version 7 answer about one partition.
func parseOffsetFetch(body []byte) (metadata string, code int16, err error) {
	r := NewCursor(body)
	r.tags()
	r.Int32() // throttle time
	for range r.compactLength() {
		r.compactString()
		for range r.compactLength() {
			r.Int32() // index
			offset := r.Int64()
			r.Int32() // leader epoch
			text := r.compactString()
			if c := r.Int16(); c != 0 {
				code = c
			}
			r.tags()
			if offset >= 0 {
				metadata = text
			}
		}
		r.tags()
	}
	if c := r.Int16(); c != 0 {
		code = c
	}
	if err := r.Err(); err != nil {
		return "", 0, err
	}
	return metadata, code, nil
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func appendCompact(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	return append(dst, s...)
}

// AppendString appends a string with its length in front, as the older versions of requests have it.
func AppendString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}
